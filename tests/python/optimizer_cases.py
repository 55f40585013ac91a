# SPDX-License-Identifier: Apache-2.0
"""Optimizers of castor.nn, without a Booster and under one."""

import copy
import gc
import pickle
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from castor.nn.optimizer import CPUAdam, FusedAdam, FusedLAMB, FusedSGD, HybridAdam, Lamb, Lars
from forks import in_a_fork, refusals
from pairs import SameWeights
from plain_loop import PlainLoop

ADAM = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}


def made(dtype=torch.float32):
    torch.manual_seed(0)
    return TiedModel().to(dtype)


def train(model, optimizer, seeds):
    losses = []
    for seed in seeds:
        loss = loss_of(model, seed)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def plain(dtype, rule, values, seeds):
    model = made(dtype)
    loop = PlainLoop(model, rule, [{**values, "params": list(model.parameters())}])
    for seed in seeds:
        loss_of(model, seed).backward()
        loop.step()
    return model


class Alone(SameWeights):
    """On models that no Booster has, against the plain loop, to the last bit."""

    def test_have_the_bits_of_the_plain_loop(self):
        sgd = {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}
        for make, rule, values in (
            (HybridAdam, "adamw", ADAM),
            (CPUAdam, "adamw", ADAM),
            (FusedAdam, "adamw", ADAM),
            (lambda params, **more: HybridAdam(params, adamw_mode=False, **more), "adam", ADAM),
            (FusedSGD, "sgd", sgd),
        ):
            for dtype in (torch.float32, torch.bfloat16):
                model = made(dtype)
                train(model, make(model.parameters(), **values), range(3))
                self.assert_same(model.state_dict(), plain(dtype, rule, values, range(3)).state_dict())

    def test_keep_states_on_nvme(self):
        expected = plain(torch.float32, "adamw", ADAM, range(3)).state_dict()
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            for fraction, where in ((1.0, folder), (0.5, folder), (1.0, None)):
                model = made()
                optimizer = HybridAdam(model.parameters(), **ADAM, nvme_offload_fraction=fraction, nvme_offload_dir=where)
                train(model, optimizer, range(3))
                self.assert_same(model.state_dict(), expected)
                read, written = optimizer.moved_bytes()
                states = 8 * sum(parameter.numel() for parameter in model.parameters())
                self.assertGreaterEqual(written, 3 * fraction * states * 0.8)
                self.assertGreaterEqual(read, 2 * fraction * states * 0.8)
            del optimizer
            gc.collect()
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_folder_without_a_share_of_the_states_is_warned_of(self):
        with self.assertWarnsRegex(UserWarning, "nvme_offload_dir=… has no effect: nvme_offload_fraction is 0") as warned:
            HybridAdam(made().parameters(), nvme_offload_dir="/tmp")
        self.assertEqual(warned.filename, __file__)

    def test_lamb_and_lars_follow_their_formulas(self):
        """In double precision, of the first step."""
        for make, direction in (
            (lambda p: Lamb(p, lr=0.1, eps=1e-6, weight_decay=0.1), lambda w, g: g / (g.abs() + 1e-6) + 0.1 * w),
            (lambda p: Lars(p, lr=0.1, eeta=0.01, weight_decay=0.1), None),
        ):
            model = made()
            before = [parameter.detach().double() for parameter in model.parameters()]
            loss_of(model, 0).backward()
            grads = [parameter.grad.double() for parameter in model.parameters()]
            make(model.parameters()).step()
            for weight, old, grad in zip(model.parameters(), before, grads):
                if direction is None:
                    ratio = 0.01 * old.norm() / (grad.norm() + 0.1 * old.norm()) if old.norm() and grad.norm() else 1
                    step = ratio * (grad + 0.1 * old)
                else:
                    r = direction(old, grad)
                    step = (old.norm() / r.norm() if old.norm() and r.norm() else 1) * r
                torch.testing.assert_close(weight.double(), old - 0.1 * step, rtol=2e-4, atol=2e-6)

    def test_fused_lamb_clips(self):
        def moved(max_grad_norm, scale):
            model = made()
            optimizer = FusedLAMB(model.parameters(), lr=0.1, max_grad_norm=max_grad_norm)
            (loss_of(model, 0) * scale).backward()
            optimizer.step()
            return optimizer.state_dict()["state"][0]["exp_avg"]

        model = made()
        loss_of(model, 0).backward()
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in model.parameters()]).item()
        torch.testing.assert_close(moved(1e9, 0.5 / norm), moved(0.5, 1.0), rtol=1e-4, atol=1e-9)

    def test_bias_can_be_left(self):
        model, twin = made(), made()
        loss_of(model, 0).backward()
        grads = [parameter.grad.double() for parameter in model.parameters()]
        HybridAdam(model.parameters(), lr=0.1, bias_correction=False).step()
        for weight, old, grad in zip(model.parameters(), twin.parameters(), grads):
            expected = old.double() - 0.1 * 0.1 * grad / ((0.001 * grad**2).sqrt() + 1e-8)
            torch.testing.assert_close(weight.double(), expected, rtol=1e-4, atol=1e-6)

    def test_groups_and_schedulers(self):
        model, twin = made(), made()
        groups = lambda m: [{"params": [m.embedding.weight], "lr": 1e-3}, {"params": list(m.blocks.parameters())}]  # noqa: E731
        optimizer = HybridAdam(groups(model), **ADAM)
        loop = PlainLoop(twin, "adamw", [{**ADAM, **group} for group in groups(twin)])
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for seed in range(3):
            train(model, optimizer, [seed])
            loss_of(twin, seed).backward()
            loop.step()
            scheduler.step()
            for group, rate in zip(loop.groups, scheduler.get_last_lr()):
                group["lr"] = rate
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_a_parameter_without_a_gradient_stays(self):
        model = made()
        model.blocks[1].requires_grad_(False)
        before = copy.deepcopy(model.blocks[1].state_dict())
        train(model, HybridAdam(model.parameters(), **ADAM), range(2))
        self.assert_same(model.blocks[1].state_dict(), before)

    def test_weights_that_the_program_changes_go_on_from_there(self):
        """Against the plain loop on a model that begins with these values."""
        for dtype in (torch.bfloat16, torch.float16):
            parameter, plain_one = (torch.nn.Parameter(torch.linspace(-1, 1, 1000).to(dtype)) for _ in range(2))
            optimizer = FusedSGD([parameter], lr=0.1)
            parameter.grad = torch.linspace(1, 2, 1000).to(dtype)
            optimizer.step()
            with torch.no_grad():
                parameter.zero_()
                plain_one.zero_()
            group = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False, "params": [plain_one]}
            loop = PlainLoop(torch.nn.ParameterList([plain_one]), "sgd", [group])
            parameter.grad = torch.linspace(-1, 1, 1000).to(dtype)
            (plain_one * parameter.grad).sum().backward()
            optimizer.step()
            loop.step()
            self.assertTrue(torch.equal(parameter, plain_one), dtype)

    def test_what_cannot_be_is_refused(self):
        model = made()
        for make, fixed in (
            (FusedAdam, {"amsgrad": True}),
            (FusedLAMB, {"adam_w_mode": False}),
            (FusedLAMB, {"grad_averaging": False}),
            (FusedLAMB, {"use_nvlamb": True}),
            (lambda params, **more: FusedSGD(params, lr=0.1, **more), {"dampening": 0.1}),
        ):
            name = next(iter(fixed))
            with self.assertRaisesRegex(castor.Error, f"Castor trains with {name}=") as raised:
                make(model.parameters(), **fixed)
            self.assertEqual(raised.exception.option, name)
        with self.assertRaisesRegex(castor.Error, "nvme_offload_fraction takes a number from 0 to 1, not 2"):
            HybridAdam(model.parameters(), nvme_offload_fraction=2.0)
        with self.assertRaisesRegex(castor.Error, "/nowhere/at/all"):
            train(model, HybridAdam(model.parameters(), nvme_offload_fraction=1.0, nvme_offload_dir="/nowhere/at/all"), range(1))
        optimizer = HybridAdam(model.parameters())
        train(model, optimizer, range(1))
        with self.assertRaisesRegex(castor.Error, "add groups of parameters before its first step"):
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
        with self.assertRaisesRegex(castor.Error, "not torch.float64"):
            HybridAdam([torch.nn.Parameter(torch.ones(2, dtype=torch.float64))]).step()
        with self.assertRaisesRegex(castor.Error, "gaps or overlaps"):
            HybridAdam([torch.nn.Parameter(torch.ones(4, 4)[:, :2])]).step()

    def test_zero_grad_follows_set_grad_none(self):
        for make in (FusedAdam, FusedLAMB):
            for sets_none in (True, False):
                weight = nn.Parameter(torch.ones(3))
                optimizer = make([weight], set_grad_none=sets_none)
                weight.grad = torch.ones(3)
                optimizer.zero_grad()
                self.assertEqual(weight.grad is None, sets_none)
                if not sets_none:
                    self.assertEqual(weight.grad.tolist(), [0.0, 0.0, 0.0])
                optimizer.zero_grad(set_to_none=True)
                self.assertIsNone(weight.grad)


def with_gradient(values):
    parameter = nn.Parameter(values)
    parameter.grad = torch.ones_like(parameter)
    return parameter


class Changes(SameWeights):
    """Of a parameter's memory after the first step."""

    def test_are_refused_and_leave_the_rest(self):
        for change, message in (
            (lambda p: p.to(torch.bfloat16), "dtype .* from torch.float32 to torch.bfloat16"),
            (lambda p: p[:4].clone(), r"sizes .* from \(8, 6\) to \(4, 6\)"),
            (lambda p: torch.zeros(8, 12)[:, :6], r"strides .* from \(6, 1\) to \(12, 1\)"),
            (lambda p: p.t().contiguous().t(), r"strides .* from \(6, 1\) to \(1, 8\)"),
        ):
            with self.subTest(message):
                first, changed = with_gradient(torch.ones(2)), with_gradient(torch.ones(8, 6))
                optimizer = HybridAdam([first, changed])
                optimizer.step()
                before = first.detach().clone()
                changed.data = change(changed.data)
                changed.grad = torch.ones_like(changed)
                for call in (optimizer.step, optimizer.state_dict, lambda: copy.deepcopy(optimizer)):
                    with self.assertRaisesRegex(castor.Error, f"{message} .* state_dict\\(\\) before") as raised:
                        call()
                    self.assertEqual(raised.exception.kind, "usage")
                self.assertTrue(torch.equal(first, before))

    def test_of_gradients_are_refused(self):
        for values, message in (
            (torch.ones(2), r"has sizes \(2,\), and its parameter \(4,\)"),
            (torch.ones(4, dtype=torch.float64), "not torch.float64"),
        ):
            parameter = with_gradient(torch.ones(4))
            optimizer = HybridAdam([parameter])
            optimizer.step()
            parameter.grad.data = values
            with self.assertRaisesRegex(castor.Error, message):
                optimizer.step()

    def test_of_the_parameters_are_refused(self):
        optimizer = HybridAdam([with_gradient(torch.ones(4))])
        optimizer.step()
        optimizer.param_groups[0]["params"].append(with_gradient(torch.ones(4)))
        with self.assertRaisesRegex(castor.Error, "added after the optimizer's first step"):
            optimizer.step()

    def test_to_a_boosted_model_are_refused(self):
        model = made()
        alone = HybridAdam(model.parameters())
        train(model, alone, range(1))
        optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
        Booster(plugin=GeminiPlugin(precision=None, device_budget="400KiB", chunk_bytes="16KiB")).boost(model, optimizer)
        loss_of(model, 1).backward()
        with self.assertRaisesRegex(castor.Error, "boosted with another optimizer"):
            alone.step()
        optimizer.step()

    def test_to_other_memory_with_the_same_layout_are_followed(self):
        model, twin = made(), made()
        optimizer, alone = (HybridAdam(m.parameters(), **ADAM) for m in (model, twin))
        for seed in range(3):
            train(model, optimizer, [seed])
            train(twin, alone, [seed])
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_of_strides_that_say_nothing_are_followed(self):
        """Of a dimension of size 1: a convolution of 1x1 in another memory format has the same order."""
        weight, twin = (with_gradient(torch.arange(6.0).reshape(3, 2, 1, 1)) for _ in range(2))
        optimizer, alone = HybridAdam([weight]), HybridAdam([twin])
        for _ in range(2):
            weight.data = weight.data.to(memory_format=torch.channels_last)
            optimizer.step()
            alone.step()
            weight.data = torch.empty_like(twin.data).copy_(weight.data)
        self.assertTrue(torch.equal(weight, twin))

    def test_go_through_the_state_dict_to_a_new_optimizer(self):
        """As the message says: to another dtype, and to another memory format; against AdamW of torch in fp32."""

        def convolutions():
            torch.manual_seed(0)
            return nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 3))

        def steps(model, optimizer, seeds):
            for seed in seeds:
                x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
                model(x.to(model[0].weight.dtype)).float().pow(2).mean().backward()
                optimizer.step()
                optimizer.zero_grad()

        for change, tolerance in ((lambda m: m.to(memory_format=torch.channels_last), 1e-5), (lambda m: m.bfloat16(), 0.05)):
            model, twin = convolutions(), convolutions()
            optimizer, reference = HybridAdam(model.parameters(), **ADAM), torch.optim.AdamW(twin.parameters(), **ADAM)
            steps(model, optimizer, range(3))
            saved = optimizer.state_dict()
            change(model)
            optimizer = HybridAdam(model.parameters(), **ADAM)
            optimizer.load_state_dict(saved)
            steps(model, optimizer, range(3, 5))
            steps(twin, reference, range(5))
            mine, expected = (each.state_dict()["state"] for each in (optimizer, reference))
            for number, (weight, other) in enumerate(zip(model.parameters(), twin.parameters())):
                self.assertEqual(mine[number]["step"].item(), 5)
                for one, two in ((weight, other), (mine[number]["exp_avg"], expected[number]["exp_avg"])):
                    self.assertLess((one - two).norm() / two.norm(), tolerance)


class Copies(SameWeights):
    def test_go_on_with_states_of_their_own(self):
        """In a copy and a pickle, of model and optimizer together."""
        fused_lamb = lambda m, **more: FusedLAMB(m.parameters(), lr=0.1, max_grad_norm=0.1, set_grad_none=False)  # noqa: E731
        adam = lambda m, **more: HybridAdam(m.parameters(), **ADAM, adamw_mode=False, **more)  # noqa: E731
        for make, options in ((adam, {}), (adam, {"nvme_offload_fraction": 1.0}), (fused_lamb, {})):
            for copied in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
                for dtype in (torch.float32, torch.bfloat16):
                    model, twin = made(dtype), made(dtype)
                    optimizer, alone = make(model, **options), make(twin)
                    train(model, optimizer, range(2))
                    train(twin, alone, range(4))
                    other, other_optimizer = copied((model, optimizer))
                    self.assertIs(type(other_optimizer), type(optimizer))
                    self.assertEqual(other_optimizer.set_grad_none, optimizer.set_grad_none)
                    train(other, other_optimizer, range(2, 4))
                    self.assert_same(other.state_dict(), twin.state_dict())
                    train(model, optimizer, range(2, 4))
                    self.assert_same(model.state_dict(), twin.state_dict())
                    if options:
                        self.assertGreater(other_optimizer.moved_bytes()[1], 0)

    def test_of_one_that_made_no_step(self):
        model, twin = made(), made()
        optimizer = copy.deepcopy(HybridAdam(model.parameters(), **ADAM))
        self.assertFalse({*optimizer.param_groups[0]["params"]} & {*model.parameters()})
        self.assertEqual(optimizer.state_dict()["state"], {})
        model, optimizer = copy.deepcopy((twin, HybridAdam(twin.parameters(), **ADAM)))
        train(model, optimizer, range(2))
        self.assert_same(model.state_dict(), plain(torch.float32, "adamw", ADAM, range(2)).state_dict())


class Forks(SameWeights):
    def test_cannot_use_it(self):
        """Which says so; and neither its use nor its end there waits for threads of the parent."""
        for fraction in (0.0, 1.0):
            model = made()
            optimizer = HybridAdam(model.parameters(), **ADAM, nvme_offload_fraction=fraction)
            train(model, optimizer, range(2))
            loss_of(model, 2).backward()
            saved = optimizer.state_dict()
            held = {"optimizer": optimizer}
            del optimizer

            def in_worker():
                mine = held.pop("optimizer")
                calls = (mine.step, mine.state_dict, mine.moved_bytes, lambda: mine.load_state_dict(saved), lambda: copy.copy(mine))
                messages = refusals(calls)
                del mine, calls
                gc.collect()
                return messages

            messages = in_a_fork(in_worker)
            self.assertEqual(len(messages), 5)
            for message in messages:
                self.assertIn("made its first step in another process, of which this one is a fork", message)
            optimizer = held["optimizer"]
            if fraction:
                self.assertTrue(Path(optimizer.nvme_folder()).is_dir())
            optimizer.step()
            optimizer.zero_grad()
            train(model, optimizer, range(3, 4))
            self.assert_same(model.state_dict(), plain(torch.float32, "adamw", ADAM, range(4)).state_dict())

    def test_may_train_with_ones_of_their_own(self):
        model = made()
        train(model, HybridAdam(model.parameters(), **ADAM), range(1))

        def in_worker():
            mine = made()
            losses = train(mine, HybridAdam(mine.parameters(), **ADAM, nvme_offload_fraction=0.5), range(3))
            return [*losses, mine.head.weight.sum().item()]

        expected = in_worker()
        self.assertEqual(in_a_fork(in_worker), expected)


class States(SameWeights):
    def test_a_value_of_another_type_is_refused_by_its_name(self):
        model = made()
        for make, values, name in (
            *((HybridAdam, {"lr": value}, "lr") for value in ("1e-3", "a", None, [1e-3], True)),
            *((HybridAdam, {"betas": value}, "betas") for value in ((0.9,), (0.9, "a"), 0.9, None, (0.9, 0.99, 0.999))),
            (HybridAdam, {"bias_correction": "no"}, "bias_correction"),
            (HybridAdam, {"adamw_mode": "no"}, "adamw_mode"),
            *((HybridAdam, {"nvme_offload_fraction": value}, "nvme_offload_fraction") for value in ("1", 1.5, -0.1)),
            (HybridAdam, {"nvme_offload_dir": 5}, "nvme_offload_dir"),
            (FusedLAMB, {"max_grad_norm": "1"}, "max_grad_norm"),
            (FusedLAMB, {"max_grad_norm": -1.0}, "max_grad_norm"),
            (Lars, {"epsilon": "0"}, "epsilon"),
            (lambda params, **more: FusedSGD(params, lr=0.1, momentum=0.9, **more), {"nesterov": "no"}, "nesterov"),
        ):
            with self.subTest(values), self.assertRaisesRegex(castor.Error, f"^{name} takes ") as raised:
                make(model.parameters(), **values)
            self.assertEqual((raised.exception.kind, raised.exception.option), ("usage", name))
        optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
        Booster(plugin=TorchDDPPlugin()).boost(model, optimizer)
        train(model, optimizer, range(1))
        for name, value in (("lr", "1e-3"), ("betas", (0.9,)), ("betas", (0.9, "a")), ("eps", None)):
            optimizer.param_groups[0].update({**ADAM, name: value})
            with self.assertRaisesRegex(castor.Error, f"^{name} takes "):
                train(model, optimizer, range(1))
            optimizer.zero_grad()

    def test_a_state_dict_that_does_not_fit_is_refused_before_it_changes_anything(self):
        def alone(make):
            model = made()
            return model, make(model.parameters())

        def boosted(make):
            model, optimizer = alone(make)
            Booster(plugin=TorchDDPPlugin()).boost(model, optimizer)
            return model, optimizer

        def adamw(parameters):
            return torch.optim.AdamW(parameters, **ADAM)

        def with_state(saved, **values):
            return {**saved, "state": {**saved["state"], 1: {**saved["state"][1], **values}}}

        other, sgd = alone(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
        train(other, sgd, range(1))
        for model, optimizer in (alone(lambda parameters: HybridAdam(parameters, **ADAM)), boosted(adamw)):
            train(model, optimizer, range(2))
            saved = optimizer.state_dict()
            moment = saved["state"][1]["exp_avg"]
            group = saved["param_groups"][0]
            for wrong, message in (
                ({}, "has no state"),
                ({"state": {}}, "has no param_groups"),
                (sgd.state_dict(), "of another optimizer: its groups have no .*betas"),
                ({**saved, "state": sgd.state_dict()["state"]}, "parameter 0 has no step; it is of another optimizer"),
                (with_state(saved, exp_avg=torch.zeros(1)), r"parameter 1 has exp_avg of sizes \(1,\)"),
                (with_state(saved, exp_avg_sq=torch.zeros(*moment.shape, 1)), "exp_avg_sq of sizes"),
                (with_state(saved, exp_avg_sq=None), "has no exp_avg_sq"),
                ({**saved, "param_groups": []}, r"groups of \[\] parameters, and the optimizer of \["),
                ({**saved, "param_groups": [{**group, "params": group["params"][1:]}]}, "groups of"),
                ({**saved, "param_groups": [{**group, "lr": "fast"}]}, "lr takes"),
                ({**saved, "param_groups": [{**group, "betas": (0.9, 1.5)}]}, "betas"),
            ):
                with self.subTest(message), self.assertRaisesRegex(castor.Error, message) as raised:
                    optimizer.load_state_dict(wrong)
                self.assertEqual(raised.exception.kind, "usage")
            self.assertEqual(optimizer.param_groups[0]["betas"], (0.9, 0.99))
            after = optimizer.state_dict()["state"]
            for number, state in saved["state"].items():
                self.assertTrue(torch.equal(after[number]["exp_avg"], state["exp_avg"]))
            self.assertEqual(train(model, optimizer, range(2, 3)), self.continued(saved, 2))

    def continued(self, saved, n_steps):
        """The next loss of a twin that made as many steps, and then loaded the state_dict."""
        twin = made()
        optimizer = HybridAdam(twin.parameters(), **ADAM)
        train(twin, optimizer, range(n_steps))
        optimizer.load_state_dict(saved)
        return train(twin, optimizer, range(n_steps, n_steps + 1))

    def test_what_a_state_dict_lacks_begins_anew(self):
        """As a search for a learning rate does, which goes back to the first weights and states: alone and boosted."""
        for boosts, make in ((False, HybridAdam), (True, torch.optim.AdamW), (True, torch.optim.SGD)):
            values = {"lr": 1e-2, "momentum": 0.9} if make is torch.optim.SGD else ADAM
            ends = []
            for earlier in (3, 0):
                model = made()
                optimizer = make(model.parameters(), **values)
                if boosts:
                    Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer)
                weights, states = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
                train(model, optimizer, range(earlier))
                model.load_state_dict(weights)
                optimizer.load_state_dict(states)
                train(model, optimizer, range(5, 7))
                ends.append((model.state_dict(), optimizer.state_dict()["state"]))
            self.assert_same(ends[0][0], ends[1][0])
            for number, state in ends[1][1].items():
                for name, value in state.items():
                    self.assertTrue(torch.equal(torch.as_tensor(ends[0][1][number][name]), torch.as_tensor(value)), name)

    def test_values_that_a_state_dict_lacks_stay(self):
        """Torch's AdamW knows no bias_correction."""
        model = made()
        optimizer = HybridAdam(model.parameters(), bias_correction=False)
        optimizer.load_state_dict(torch.optim.AdamW(made().parameters(), lr=0.5).state_dict())
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)
        self.assertFalse(optimizer.param_groups[0]["bias_correction"])
        momentumless = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, momentumless, range(1))
        FusedSGD(model.parameters(), lr=0.1).load_state_dict(momentumless.state_dict())

    def test_a_value_out_of_its_range_is_refused_by_its_name(self):
        model = made()
        for make, values, name in (
            (HybridAdam, {"lr": -1}, "lr"),
            (CPUAdam, {"lr": float("nan")}, "lr"),
            (FusedAdam, {"betas": (0.9, 1.0)}, "betas"),
            (Lamb, {"betas": (-0.1, 0.999)}, "betas"),
            (FusedLAMB, {"weight_decay": -0.1}, "weight_decay"),
            (HybridAdam, {"eps": -1e-8}, "eps"),
            (lambda params, **more: FusedSGD(params, lr=0.1, **more), {"momentum": 1.0}, "momentum"),
            (Lars, {"eeta": -1e-3}, "eeta"),
        ):
            with self.subTest(name), self.assertRaisesRegex(castor.Error, f"^{name} takes "):
                make(model.parameters(), **values)
        optimizer = HybridAdam([{"params": list(model.parameters())[:2]}], lr=1e-2)
        with self.assertRaisesRegex(castor.Error, "^lr takes "):
            optimizer.add_param_group({"params": list(model.parameters())[2:], "lr": -1})
        self.assertEqual(len(optimizer.param_groups), 1)
        optimizer.param_groups[0]["lr"] = -1.0
        before = [parameter.detach().clone() for parameter in model.parameters()]
        loss_of(model, 0).backward()
        with self.assertRaisesRegex(castor.Error, "^lr takes "):
            optimizer.step()
        self.assertTrue(all(map(torch.equal, before, model.parameters())))
        other = made()
        lars = Lars(other.parameters(), lr=1e-2)
        lars.param_groups[0]["epsilon"] = -1.0
        with self.assertRaisesRegex(castor.Error, "epsilon takes "):
            Booster(plugin=TorchDDPPlugin()).boost(other, lars)

    def test_go_on_where_they_were_saved(self):
        """To and from torch's own and a boosted optimizer."""
        for dtype in (torch.float32, torch.bfloat16):
            for fraction in (0.0, 1.0):
                make = lambda m: HybridAdam(m.parameters(), **ADAM, nvme_offload_fraction=fraction)  # noqa: E731, B023
                model, expected = made(dtype), made(dtype)
                optimizer = make(model)
                train(model, optimizer, range(2))
                saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
                train(model, optimizer, range(2, 4))
                expected.load_state_dict(saved[0])
                other = make(expected)
                other.load_state_dict(saved[1])
                train(expected, other, range(2, 4))
                self.assert_same(expected.state_dict(), model.state_dict())
                other = torch.optim.AdamW(expected.parameters(), **ADAM)
                other.load_state_dict(saved[1])
                self.assertEqual(other.state_dict()["state"][0]["step"].item(), 2)

    def test_of_an_optimizer_that_made_steps_go_on_under_a_booster(self):
        for make in (lambda m: HybridAdam(m.parameters(), **ADAM), lambda m: torch.optim.AdamW(m.parameters(), **ADAM)):
            model, twin = made(), made()
            optimizer, alone = make(model), HybridAdam(twin.parameters(), **ADAM)
            train(twin, alone, range(2))
            train(model, optimizer, range(2))
            if isinstance(optimizer, HybridAdam):
                self.assert_same(model.state_dict(), twin.state_dict())
            twin.load_state_dict(model.state_dict())
            alone.load_state_dict(optimizer.state_dict())
            Booster(plugin=GeminiPlugin(precision=None, device_budget="400KiB", chunk_bytes="16KiB")).boost(model, optimizer)
            self.assertFalse(optimizer.state)
            train(model, optimizer, range(2, 4))
            train(twin, alone, range(2, 4))
            self.assert_same(model.state_dict(), twin.state_dict())

    def test_are_read_before_a_booster_casts_the_parameters(self):
        for dtype, precision in ((torch.float32, "bf16"), (torch.bfloat16, "fp32"), (torch.bfloat16, "bf16")):
            model = made(dtype)
            optimizer = HybridAdam(model.parameters(), **ADAM)
            train(model, optimizer, range(2))
            before = copy.deepcopy(optimizer.state_dict()["state"])
            Booster(plugin=GeminiPlugin(precision=precision, device_budget="400KiB", chunk_bytes="16KiB")).boost(model, optimizer)
            after = optimizer.state_dict()["state"]
            self.assertEqual(after.keys(), before.keys())
            for number, state in before.items():
                self.assertEqual(after[number]["step"].item(), 2)
                self.assertTrue(torch.equal(after[number]["exp_avg"], state["exp_avg"]))
                self.assertTrue(torch.equal(after[number]["exp_avg_sq"], state["exp_avg_sq"]))

    def test_of_sgd_without_momentum_are_none(self):
        model, twin = made(), made()
        optimizer, alone = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin))
        train(model, optimizer, range(1))
        train(twin, alone, range(1))
        Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer)
        train(model, optimizer, range(1, 2))
        train(twin, alone, range(1, 2))
        for name, weight in twin.state_dict().items():
            torch.testing.assert_close(model.state_dict()[name], weight)


class Boosted(SameWeights):
    def test_train_as_alone(self):
        for make in (
            lambda p: HybridAdam(p, **ADAM),
            lambda p: FusedSGD(p, lr=0.1, momentum=0.9),
            lambda p: Lamb(p, lr=0.1, weight_decay=0.1),
            lambda p: Lars(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        ):
            model, twin = made(), made()
            optimizer = make(model.parameters())
            plugin = GeminiPlugin(precision=None, device_budget="400KiB", chunk_bytes="16KiB")
            Booster(plugin=plugin).boost(model, optimizer)
            self.assertEqual(train(model, optimizer, range(3)), train(twin, make(twin.parameters()), range(3)))
            self.assert_same(model.state_dict(), twin.state_dict())

    def test_states_go_to_nvme_where_the_optimizer_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            model, twin = made(), made()
            optimizer = HybridAdam(model.parameters(), **ADAM, nvme_offload_fraction=1.0, nvme_offload_dir=folder)
            Booster(plugin=GeminiPlugin(precision=None, chunk_bytes="16KiB")).boost(model, optimizer)
            train(model, optimizer, range(3))
            train(twin, HybridAdam(twin.parameters(), **ADAM), range(3))
            self.assert_same(model.state_dict(), twin.state_dict())
            states = 8 * sum(parameter.numel() for parameter in twin.parameters())
            self.assertGreaterEqual(castor.stats(model)["used_bytes"]["nvme"], states)

    def test_what_only_stands_alone_is_refused(self):
        model = made()
        with self.assertRaisesRegex(castor.Error, "Castor trains with bias_correction=True"):
            Booster(plugin=TorchDDPPlugin()).boost(model, HybridAdam(model.parameters(), bias_correction=False))

    def test_fused_lamb_is_clipped(self):
        model, twin = made(), made()
        optimizer, alone = (FusedLAMB(m.parameters(), lr=0.1, max_grad_norm=0.1) for m in (model, twin))
        Booster(plugin=TorchDDPPlugin()).boost(model, optimizer)
        train(model, optimizer, range(2))
        train(twin, alone, range(2))
        for name, weight in twin.state_dict().items():
            torch.testing.assert_close(model.state_dict()[name], weight, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
