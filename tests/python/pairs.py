# SPDX-License-Identifier: Apache-2.0
"""A boosted model and its twin under a plain loop in torch, for cases that compare the two."""

import gc
import tempfile
import unittest

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from plain_loop import PlainLoop
from where import DEVICE

VALUES = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


def made(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return TiedModel().to(DEVICE, dtype)


def boosted(dtype=torch.bfloat16, groups=lambda model: model.parameters(), **options):
    model = made(dtype)
    optimizer = torch.optim.AdamW(groups(model), **VALUES)
    options = {"precision": None, "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB", **options}
    Booster(plugin=GeminiPlugin(**options)).boost(model, optimizer)
    return model, optimizer


def plain(dtype=torch.bfloat16, groups=lambda model: [{"params": list(model.parameters())}]):
    model = made(dtype)
    return model, PlainLoop(model, "adamw", [{**VALUES, **group} for group in groups(model)])


def backward_of(model, seed):
    loss = loss_of(model, seed)
    loss.backward()
    return loss.item()


class SameWeights(unittest.TestCase):
    def assert_same(self, weights, expected):
        """Of two state_dicts."""
        self.assertEqual(sorted(weights), sorted(expected))
        for name, weight in expected.items():
            self.assertEqual(weights[name].dtype, weight.dtype, name)
            self.assertTrue(torch.equal(weights[name].to(weight.device), weight), name)


class Pair(SameWeights):
    def setUp(self):
        self.model, self.optimizer = boosted()
        self.twin, self.loop = plain()

    def both(self, call):
        """`call` on both models; their results are equal."""
        mine, expected = call(self.model), call(self.twin)
        self.assertEqual(mine, expected)

    def step(self, seed):
        self.both(lambda model: backward_of(model, seed))
        self.optimizer.step()
        self.loop.step()

    def assert_same_weights(self):
        self.assert_same(self.model.state_dict(), self.twin.state_dict())


def in_the_smallest_budgets(run, *tiers, **options):
    """Refusals say how much would do: at first from the model, later from what a step needs beside it. torch's own, on a GPU,
    do not."""
    budgets = {f"{tier}_budget": 1 << 10 for tier in tiers}
    while True:
        try:
            return run(**budgets, **options)
        except castor.Error as error:
            if error.tier not in tiers or error.needed <= budgets[f"{error.tier}_budget"]:
                raise
            budgets[f"{error.tier}_budget"] = error.needed
        except torch.OutOfMemoryError:
            budgets["device_budget"] += max(4 << 20, budgets["device_budget"] // 2)
            gc.collect()


class Twins(SameWeights):
    """Any model, boosted under several budgets, and its twin under a plain loop.

    make: makes the model, with random values after seed 0. loss: of a model and a seed. prepare: changes a model before it
    is boosted. dtype: that of the weights, where a precision is stated.
    """

    def plain_twin(self, make, prepare=None, dtype=None):
        torch.manual_seed(0)
        model = make().to(DEVICE)
        if prepare:
            prepare(model)
        return model, PlainLoop(model, "adamw", [{**VALUES, "params": list(model.parameters())}], dtype)

    def boosted_twin(self, make, prepare=None, **options):
        torch.manual_seed(0)
        model = make().to(DEVICE)
        if prepare:
            prepare(model)
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **VALUES)
        Booster(plugin=GeminiPlugin(**{"precision": None, "chunk_bytes": "4KiB", **options})).boost(model, optimizer)
        return model, optimizer

    def steps(self, model, optimizer, loss, seeds):
        losses = []
        for seed in seeds:
            value = loss(model, seed)
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    def check(self, make, loss, prepare=None, n_steps=3, dtype=None, **options):
        """From the smallest budgets, with NVMe and without, to none; gives back the twin and its loop."""
        twin, loop = self.plain_twin(make, prepare, dtype)
        losses = self.steps(twin, loop, loss, range(n_steps))

        def run(**budgets):
            model, optimizer = self.boosted_twin(make, prepare, **options, **budgets)
            self.assertEqual(self.steps(model, optimizer, loss, range(n_steps)), losses)
            self.assert_same(model.state_dict(), twin.state_dict())

        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            in_the_smallest_budgets(run, "device", "host", nvme=[folder])
        in_the_smallest_budgets(run, "device")
        run()
        return twin, loop
