# SPDX-License-Identifier: Apache-2.0
"""Schedulers: their rates by formulas, their states, and the steps of a boosted optimizer under them."""

import gc
import io
import math
import pathlib
import tempfile
import unittest
import warnings
import weakref

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from castor.nn import lr_scheduler
from plain_loop import PlainLoop

RATE, TOTAL, WARMUP = 0.5, 20, 5


def cosine(rate, low, share):
    return low + (rate - low) * 0.5 * (1 + math.cos(math.pi * share))


def warmed(after):
    """Rates of a linear warm-up, and of `after` from its end on."""
    return lambda t: RATE * (t + 1) / 5 if t < 5 else after(t)


def one_cycle(t):
    if t <= 5:  # 0.3 * 20 - 1
        return cosine(RATE / 25, RATE, t / 5)
    return cosine(RATE, RATE / 25 / 10000, (t - 5) / 14)


def product(factors):
    return RATE * math.prod(factors)


# Of each scheduler its options, and its rate at step t.
SCHEDULERS = {
    "ConstantLR": ({"factor": 0.25, "total_iters": 4}, lambda t: RATE * 0.25 if t < 4 else RATE),
    "CosineAnnealingLR": ({"eta_min": 0.1}, lambda t: cosine(RATE, 0.1, t / 20)),
    "CosineAnnealingWarmupLR": (
        {"warmup_steps": WARMUP, "eta_min": 0.1},
        warmed(lambda t: cosine(RATE, 0.1, (t - 5) / 15)),
    ),
    "ExponentialLR": ({"gamma": 0.9}, lambda t: RATE * 0.9**t),
    "FlatAnnealingLR": ({"pct_start": 0.7}, lambda t: RATE if t < 14 else cosine(RATE, 0, (t - 14) / 6)),
    "FlatAnnealingWarmupLR": (
        {"warmup_steps": WARMUP, "pct_start": 0.6, "eta_min": 0.1},
        warmed(lambda t: RATE if t < 14 else cosine(RATE, 0.1, (t - 14) / 6)),
    ),
    "LambdaLR": ({"lr_lambda": lambda t: 1 / (1 + t)}, lambda t: RATE / (1 + t)),
    "LinearWarmupLR": (
        {"warmup_steps": WARMUP},
        lambda t: RATE * (t + 1) / 6 if t < 5 else RATE * max(20 - t, 0) / 15,
    ),
    "MultiplicativeLR": ({"lr_lambda": lambda t: 0.9}, lambda t: product([0.9] * t)),
    "MultiStepLR": ({"milestones": [8, 12], "gamma": 0.1}, lambda t: RATE * (1 if t < 8 else 0.1 if t < 12 else 0.01)),
    "MultiStepWarmupLR": (
        {"warmup_steps": WARMUP, "milestones": [8, 12], "gamma": 0.1},
        warmed(lambda t: RATE * (1 if t < 8 else 0.1 if t < 12 else 0.01)),
    ),
    "OneCycleLR": ({"cycle_momentum": False}, one_cycle),
    "PolynomialLR": ({"end_lr": 0.1, "power": 2}, lambda t: 0.4 * (1 - min(t, 20) / 20) ** 2 + 0.1),
    "PolynomialWarmupLR": (
        {"warmup_steps": WARMUP, "end_lr": 0.1, "power": 2},
        warmed(lambda t: 0.4 * (1 - min(t - 5, 15) / 15) ** 2 + 0.1),
    ),
    "StepLR": ({"step_size": 4, "gamma": 0.5}, lambda t: RATE * 0.5 ** (t // 4)),
}


def sgd(rate=RATE):
    return torch.optim.SGD([nn.Parameter(torch.zeros(3))], lr=rate)


def made(name, optimizer, **options):
    return getattr(lr_scheduler, name)(optimizer, TOTAL, **{**SCHEDULERS[name][0], **options})


def steps(scheduler, n):
    """The next n rates."""
    rates = []
    for _ in range(n):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


class Schedulers(unittest.TestCase):
    def setUp(self):
        warned = warnings.catch_warnings()
        warned.__enter__()
        self.addCleanup(warned.__exit__, None, None, None)
        warnings.simplefilter("error")

    def assert_rates(self, rates, expected, name):
        self.assertEqual(len(rates), len(expected), name)
        for step, (rate, right) in enumerate(zip(rates, expected)):
            self.assertAlmostEqual(rate, right, delta=1e-12, msg=f"{name} at step {step}")

    def test_all_are_here(self):
        self.assertEqual(sorted(SCHEDULERS), sorted(lr_scheduler.__all__))
        for name in SCHEDULERS:
            self.assertTrue(issubclass(getattr(lr_scheduler, name), torch.optim.lr_scheduler.LRScheduler), name)

    def test_rates(self):
        for name, (_, rate) in SCHEDULERS.items():
            scheduler = made(name, sgd())
            n = TOTAL - 1 if name == "OneCycleLR" else TOTAL + 4
            self.assert_rates(steps(scheduler, n), [rate(t) for t in range(n)], name)
            self.assert_rates(scheduler.get_last_lr(), [rate(n)], name)

    def test_defaults(self):
        for name, options, rate in (
            ("CosineAnnealingWarmupLR", {}, lambda t: cosine(RATE, 0, t / 20)),
            ("FlatAnnealingLR", {}, lambda t: RATE if t < 14 else cosine(RATE, 0, (t - 14) / 6)),  # 0.72 * 20 = 14.4
            ("FlatAnnealingWarmupLR", {}, lambda t: RATE if t < 14 else cosine(RATE, 0, (t - 14) / 6)),
            ("LinearWarmupLR", {}, lambda t: RATE * (20 - t) / 20),
            ("PolynomialLR", {}, lambda t: (RATE - 1e-4) * (1 - t / 20) + 1e-4),
            ("ExponentialLR", {}, lambda t: RATE),
            ("StepLR", {}, lambda t: RATE * 0.1**t),
        ):
            scheduler = getattr(lr_scheduler, name)(sgd(), TOTAL, **options)
            self.assert_rates(steps(scheduler, 20), [rate(t) for t in range(20)], name)

    def test_warm_up_to_the_end(self):
        for name in ("CosineAnnealingWarmupLR", "LinearWarmupLR", "PolynomialWarmupLR"):
            scheduler = getattr(lr_scheduler, name)(sgd(), 4, warmup_steps=4)
            self.assertGreater(steps(scheduler, 4)[-1], 0.3)
        scheduler = lr_scheduler.FlatAnnealingLR(sgd(), 4, pct_start=1.0)
        self.assert_rates(steps(scheduler, 4), [RATE] * 4, "flat to the end")

    def test_groups_have_their_own_rates(self):
        optimizer = torch.optim.SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.5, 0.25)])
        scheduler = lr_scheduler.LinearWarmupLR(optimizer, 20, 4)
        self.assertEqual(scheduler.get_last_lr(), [0.5 / 5, 0.25 / 5])

    def test_resume(self):
        for name in SCHEDULERS:
            for n_before in (0, 3, 11):
                scheduler = made(name, sgd())
                steps(scheduler, n_before)
                states = through_a_file((scheduler.optimizer.state_dict(), scheduler.state_dict()))
                optimizer = sgd()
                resumed = made(name, optimizer)
                optimizer.load_state_dict(states[0])
                resumed.load_state_dict(states[1])
                self.assertEqual(steps(resumed, 7), steps(scheduler, 7), (name, n_before))

    def test_resume_by_the_number_of_the_step(self):
        for name in ("CosineAnnealingWarmupLR", "FlatAnnealingWarmupLR", "LinearWarmupLR", "PolynomialWarmupLR"):
            scheduler = made(name, sgd())
            steps(scheduler, 3)
            optimizer = sgd()
            optimizer.param_groups[0]["initial_lr"] = RATE
            resumed = made(name, optimizer, last_epoch=2)
            self.assertEqual(steps(resumed, 7), steps(scheduler, 7), name)

    def test_wrong_values_are_named(self):
        for option, call in (
            ("pct_start", lambda: lr_scheduler.FlatAnnealingLR(sgd(), 20, pct_start=1.5)),
            ("milestones", lambda: lr_scheduler.MultiStepWarmupLR(sgd(), 20)),
            ("end_lr", lambda: lr_scheduler.PolynomialLR(sgd(), 20, end_lr=-1)),
        ):
            with self.assertRaisesRegex(castor.Error, option) as raised:
                call()
            self.assertEqual(raised.exception.option, option)


class OfBoostedOptimizers(unittest.TestCase):
    def pair(self, name, before):
        """A boosted model and its scheduler."""
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        scheduler = made(name, optimizer) if before else None
        result = Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer, lr_scheduler=scheduler)
        self.assertIs(result[4], scheduler)
        return model, optimizer, scheduler or made(name, optimizer)

    def test_follow_schedulers_made_before_and_after(self):
        inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
        for name, (_, rate) in SCHEDULERS.items():
            for before in (True, False):
                with self.subTest(name=name, before=before), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    model, optimizer, scheduler = self.pair(name, before)
                    torch.manual_seed(0)
                    twin = nn.Linear(4, 2)
                    group = {"params": list(twin.parameters()), "momentum": 0, "weight_decay": 0, "nesterov": False}
                    loop = PlainLoop(twin, "sgd", [group])
                    for step in range(8):
                        group["lr"] = optimizer.param_groups[0]["lr"]
                        self.assertAlmostEqual(group["lr"], rate(step), delta=1e-12)
                        for each in (model, twin):
                            each(inputs).square().mean().backward()
                        optimizer.step()
                        scheduler.step()
                        loop.step()
                    for weight, expected in zip(model.state_dict().values(), twin.parameters()):
                        self.assertTrue(torch.equal(weight, expected))

    def test_keep_nothing_of_a_training_that_is_gone(self):
        """The garbage collector need not find its memory."""
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for before in (True, False):
            model, optimizer, scheduler = self.pair(next(iter(SCHEDULERS)), before)
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            scheduler.step()
            session = weakref.ref(optimizer.castor_session)
            del model, optimizer, scheduler
            self.assertIsNone(session(), f"made before boost: {before}")

    def test_save_and_load(self):
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            path = pathlib.Path(folder) / "scheduler.bin"
            for name in SCHEDULERS:
                _, optimizer, scheduler = self.pair(name, True)
                steps(scheduler, 3)
                Booster().save_lr_scheduler(scheduler, path)
                _, _, resumed = self.pair(name, False)
                Booster().load_lr_scheduler(resumed, path)
                self.assertEqual(steps(resumed, 7), steps(scheduler, 7), name)

    def test_one_cycle_moves_the_betas(self):
        model = nn.Linear(4, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer)
        scheduler = lr_scheduler.OneCycleLR(optimizer, TOTAL)
        self.assertAlmostEqual(optimizer.param_groups[0]["betas"][0], 0.95)
        for _ in range(5):
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            scheduler.step()
        self.assertAlmostEqual(optimizer.param_groups[0]["betas"][0], 0.85)
        self.assertAlmostEqual(optimizer.param_groups[0]["lr"], RATE)
