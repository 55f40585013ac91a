# SPDX-License-Identifier: Apache-2.0
"""Weights, gradients and states of a boosted model outside of its forward pass."""

import gc
import unittest
import warnings
import weakref

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from plain_loop import PlainLoop

VALUES = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


def made(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return TiedModel().to(dtype)


def boosted(dtype=torch.bfloat16, groups=lambda model: model.parameters(), **options):
    model = made(dtype)
    optimizer = torch.optim.AdamW(groups(model), **VALUES)
    options = {"precision": None, "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB", **options}
    Booster(plugin=GeminiPlugin(**options)).boost(model, optimizer)
    return model, optimizer


def plain(dtype=torch.bfloat16, groups=lambda model: [{"params": list(model.parameters())}]):
    model = made(dtype)
    return model, PlainLoop(model, "adamw", [{**VALUES, **group} for group in groups(model)])


class Weights(unittest.TestCase):
    def setUp(self):
        self.model, self.optimizer = boosted()
        self.twin, self.loop = plain()
        for seed in range(2):
            loss_of(self.model, seed).backward()
            self.optimizer.step()
            loss_of(self.twin, seed).backward()
            self.loop.step()

    def assert_weights(self, state_dict):
        expected = self.twin.state_dict()
        self.assertEqual(list(state_dict), list(expected))
        for name, weight in expected.items():
            self.assertTrue(torch.equal(state_dict[name], weight), name)

    @unittest.skipIf(torch.__version__ < "2.13", "torch cannot say why memory is gone")
    def test_outside_a_unit_are_refused_by_name(self):
        with self.assertRaisesRegex(RuntimeError, "blocks.1.norm.weight"):
            self.model.blocks[1].norm.weight.sum()

    def test_gathered_can_be_read(self):
        with castor.gathered(self.model):
            for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
                self.assertTrue(torch.equal(mine, expected), name)

    def test_gathered_to_write_become_the_masters(self):
        norm = self.model.blocks[0].norm
        with castor.gathered(norm, write=True), torch.no_grad():
            norm.weight.fill_(0.5)
        self.assertTrue(torch.equal(castor.master(norm.weight), torch.full_like(castor.master(norm.weight), 0.5)))
        with torch.no_grad():
            self.twin.blocks[0].norm.weight.fill_(0.5)
        self.loop.states[self.twin.blocks[0].norm.weight].master.fill_(0.5)
        loss = loss_of(self.model, 7)
        self.assertEqual(loss.item(), loss_of(self.twin, 7).item())
        loss.backward()
        self.optimizer.step()

    def test_masters(self):
        for mine, expected in zip(self.model.parameters(), self.twin.parameters()):
            self.assertTrue(torch.equal(castor.master(mine).flatten(), self.loop.states[expected].master))

    def test_state_dict_has_them(self):
        self.assert_weights(self.model.state_dict())
        part = self.model.blocks[2].state_dict()
        self.assertTrue(torch.equal(part["norm.weight"], self.twin.blocks[2].norm.weight))

    def test_a_state_dict_can_be_loaded(self):
        torch.manual_seed(5)
        other = TiedModel().bfloat16().state_dict()
        missing, unexpected = self.model.load_state_dict(other)
        self.assertEqual((missing, unexpected), ([], []))
        self.twin.load_state_dict(other)
        self.assert_weights(self.model.state_dict())
        self.assertEqual(loss_of(self.model, 3).item(), loss_of(self.twin, 3).item())

    def test_a_state_dict_of_another_model_is_refused_by_name(self):
        other = self.twin.state_dict()
        other["blocks.0.norm.weight"] = torch.zeros(3)
        del other["blocks.1.norm.bias"]
        other["extra"] = torch.zeros(1)
        with self.assertRaises(RuntimeError) as raised:
            self.model.load_state_dict(other)
        for name in ("blocks.0.norm.weight", "blocks.1.norm.bias", "extra"):
            self.assertIn(name, str(raised.exception))


class DebugMode(unittest.TestCase):
    def test_finds_an_access_before_it_happens(self):
        model, optimizer = boosted(debug=True)
        watch = optimizer.castor_first_step
        self.addCleanup(watch.mode.__exit__, None, None, None)
        twin, loop = plain()
        for seed in range(2):
            loss_of(model, seed).backward()
            optimizer.step()
            loss_of(twin, seed).backward()
            loop.step()
            with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight .* castor.gathered"):
                model.blocks[1].norm.weight.sum()
            with castor.gathered(model.blocks[1].norm.weight):
                self.assertTrue(torch.equal(model.blocks[1].norm.weight, twin.blocks[1].norm.weight))


class Gradients(unittest.TestCase):
    def setUp(self):
        self.model, self.optimizer = boosted()
        self.twin, self.loop = plain()
        for seed in range(2):
            loss_of(self.model, seed).backward()
            loss_of(self.twin, seed).backward()

    def assert_same_after_step(self):
        self.optimizer.step()
        state_dict = self.model.state_dict()
        for name, weight in self.twin.state_dict().items():
            self.assertTrue(torch.equal(state_dict[name], weight), name)

    def test_are_read_in_fp32(self):
        for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
            self.assertTrue(torch.equal(castor.grad(mine).flatten(), self.loop.sums[expected]), name)

    def test_p_grad_is_there_and_says_where_the_gradient_is(self):
        weight = self.model.head.weight
        self.assertEqual(weight.grad.shape, weight.shape)
        with self.assertRaisesRegex(RuntimeError, "embedding.weight is with Castor: optimizer.clip_grad_norm_"):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.loop.step()
        self.assert_same_after_step()
        self.assertIsNone(weight.grad)
        self.assertIsNone(castor.grad(weight))

    def test_are_clipped_once(self):
        norm = self.optimizer.clip_grad_norm_(0.01)
        self.assertAlmostEqual(norm.item(), self.loop.norm(), delta=1e-6 * self.loop.norm())
        self.loop.step(max_norm=0.01)
        self.assert_same_after_step()
        loss_of(self.model, 5).backward()
        loss_of(self.twin, 5).backward()
        self.loop.step()
        self.assert_same_after_step()

    def test_can_be_replaced(self):
        mine, expected = self.model.blocks[1].norm.weight, self.twin.blocks[1].norm.weight
        castor.set_grad(mine, torch.zeros_like(castor.grad(mine)))
        self.loop.sums[expected].zero_()
        self.loop.step()
        self.assert_same_after_step()

    def test_zero_grad_of_the_model_drops_them(self):
        self.model.zero_grad()
        self.assertIsNone(self.model.head.weight.grad)
        self.loop.sums.clear()
        loss_of(self.model, 5).backward()
        loss_of(self.twin, 5).backward()
        self.loop.step()
        self.assert_same_after_step()


class Groups(unittest.TestCase):
    @staticmethod
    def groups(model):
        vectors = [p for p in model.parameters() if p.dim() < 2]
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        return [{"params": matrices, "lr": 2e-2}, {"params": vectors, "weight_decay": 0.0, "betas": (0.8, 0.99)}]

    def test_have_their_own_values(self):
        model, optimizer = boosted(groups=self.groups)
        twin, loop = plain(groups=self.groups)
        for seed in range(3):
            loss_of(model, seed).backward()
            optimizer.step()
            loss_of(twin, seed).backward()
            loop.step()
        state_dict = model.state_dict()
        for name, weight in twin.state_dict().items():
            self.assertTrue(torch.equal(state_dict[name], weight), name)

    def test_follow_schedulers_made_before_and_after(self):
        for before in (True, False):
            model = made()
            optimizer = torch.optim.AdamW(self.groups(model), **VALUES)
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) if before else None
            Booster(plugin=GeminiPlugin(precision=None, device_budget="200KiB", chunk_bytes="16KiB")).boost(model, optimizer)
            scheduler = scheduler or torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            twin, loop = plain(groups=self.groups)
            with self.subTest(before=before), warnings.catch_warnings():
                warnings.simplefilter("error")  # torch warns of a scheduler whose optimizer's step is another
                for seed in range(3):
                    loss_of(model, seed).backward()
                    optimizer.step()
                    scheduler.step()
                    loss_of(twin, seed).backward()
                    loop.step()
                    for group in loop.groups:
                        group["lr"] *= 0.5
            state_dict = model.state_dict()
            for name, weight in twin.state_dict().items():
                self.assertTrue(torch.equal(state_dict[name], weight), name)

    def test_of_an_announced_step_stay_till_step(self):
        model, optimizer = boosted(micro_batches=1)
        twin, loop = plain()
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for seed in range(3):
            loss_of(model, seed).backward()
            optimizer.step()
            scheduler.step()
            loss_of(twin, seed).backward()
            loop.step()
            loop.groups[0]["lr"] *= 0.5
        state_dict = model.state_dict()
        for name, weight in twin.state_dict().items():
            self.assertTrue(torch.equal(state_dict[name], weight), name)
        loss_of(model, 3).backward()
        with self.assertRaisesRegex(castor.Error, "micro-batches per step"):
            loss_of(model, 4)
        optimizer.param_groups[0]["lr"] = 0.1
        with self.assertRaisesRegex(castor.Error, "announced with other values"):
            optimizer.step()

    def test_step_hooks_stay(self):
        model = made()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        called = []
        optimizer.register_step_post_hook(lambda *_: called.append("post"))
        Booster(plugin=GeminiPlugin()).boost(model, optimizer)
        optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
        loss_of(model, 0).backward()
        optimizer.step()
        self.assertEqual(called, ["pre", "post"])
        self.assertIsInstance(optimizer, torch.optim.AdamW)

    def test_a_parameter_in_no_group_is_refused_by_name(self):
        model = made()
        optimizer = torch.optim.AdamW(model.blocks.parameters())
        with self.assertRaisesRegex(castor.Error, "embedding.weight requires a gradient"):
            Booster(plugin=GeminiPlugin()).boost(model, optimizer)
        self.assertIs(type(optimizer), torch.optim.AdamW)

    def test_an_optimizer_of_another_model_is_refused(self):
        optimizer = torch.optim.AdamW(made().parameters())
        with self.assertRaisesRegex(castor.Error, "the model does not have"):
            Booster(plugin=GeminiPlugin()).boost(made(), optimizer)


class Lifetimes(unittest.TestCase):
    def test_a_model_that_is_dropped_gives_its_session_back(self):
        model, optimizer = boosted()
        loss_of(model, 0).backward()
        optimizer.step()
        session = weakref.ref(optimizer.castor_session)
        weight = model.head.weight
        del model, optimizer
        gc.collect()
        self.assertIsNone(session())
        with self.assertRaisesRegex(castor.Error, "no parameter of a model that was boosted"):
            castor.master(weight)
