# SPDX-License-Identifier: Apache-2.0
"""Optimizers of castor.nn, without a Booster and under one."""

import copy
import gc
import tempfile
import unittest
from pathlib import Path

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from castor.nn.optimizer import CPUAdam, FusedAdam, FusedLAMB, FusedSGD, HybridAdam, Lamb, Lars
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
        with tempfile.TemporaryDirectory() as folder:
            for fraction, where in ((1.0, folder), (0.5, folder), (1.0, None)):
                model = made()
                optimizer = HybridAdam(model.parameters(), **ADAM, nvme_offload_fraction=fraction, nvme_offload_dir=where)
                train(model, optimizer, range(3))
                self.assert_same(model.state_dict(), expected)
                read, written = optimizer.moved_bytes()
                states = 8 * sum(parameter.numel() for parameter in model.parameters())
                self.assertGreaterEqual(written, 3 * fraction * states * 0.8)
                self.assertGreaterEqual(read, 2 * fraction * states * 0.8)
            temporary = Path(optimizer.nvme_folder())
            self.assertTrue(temporary.is_dir())
            del optimizer
            gc.collect()
            self.assertFalse(temporary.exists())
            self.assertEqual(list(Path(folder).iterdir()), [])

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
            loop = PlainLoop(torch.nn.ParameterList([plain_one]), "sgd", [{"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "nesterov": False, "params": [plain_one]}])
            parameter.grad = torch.linspace(-1, 1, 1000).to(dtype)
            (plain_one * parameter.grad).sum().backward()
            optimizer.step()
            loop.step()
            self.assertTrue(torch.equal(parameter, plain_one), dtype)

    def test_what_cannot_be_is_refused(self):
        model = made()
        with self.assertRaisesRegex(castor.Error, "Castor trains with amsgrad=False"):
            train(model, FusedAdam(model.parameters(), amsgrad=True), range(1))
        with self.assertRaisesRegex(castor.Error, "nvme_offload_fraction is 2"):
            train(model, HybridAdam(model.parameters(), nvme_offload_fraction=2.0), range(1))
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


class States(SameWeights):
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
