# SPDX-License-Identifier: Apache-2.0
"""Weights, gradients and states of a boosted model outside of its forward pass."""

import contextlib
import gc
import io
import itertools
import json
import os
import pathlib
import tempfile
import unittest
import warnings
import weakref

import torch
from torch import nn

import castor
from boost_cases import TiedModel, loss_of
from castor._outside import WATCH
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import VALUES, Pair, SameWeights, backward_of, boosted, made, plain


class Weights(Pair):
    def setUp(self):
        super().setUp()
        for seed in range(2):
            self.step(seed)

    def assert_weights(self, state_dict):
        self.assertEqual(list(state_dict), list(self.twin.state_dict()))
        self.assert_same(state_dict, self.twin.state_dict())

    def test_outside_a_unit_are_refused_by_name(self):
        with self.assertRaisesRegex(RuntimeError, "blocks.1.norm.weight"):
            self.model.blocks[1].norm.weight.sum()

    def test_gathered_can_be_read(self):
        with castor.gathered(self.model):
            for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
                self.assertTrue(torch.equal(mine, expected), name)

    def test_gathered_by_pairs_with_names(self):
        for pairs in (self.model.named_parameters(), list(self.model.named_parameters())):
            with castor.gathered(pairs):
                for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
                    self.assertTrue(torch.equal(mine, expected), name)
        weight = self.model.blocks[1].norm.weight
        with castor.gathered([("any", weight)], write=True), torch.no_grad():
            weight.fill_(0.25)
        self.assertTrue(torch.equal(castor.master(weight), torch.full_like(castor.master(weight), 0.25)))

    def test_what_is_written_without_write_is_refused(self):
        weight = self.model.blocks[1].norm.weight
        with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight was written within castor.gathered without write=True"):
            with castor.gathered(self.model), torch.no_grad():
                weight.fill_(0.25)
        with self.assertRaisesRegex(ZeroDivisionError, "mine"), castor.gathered(self.model), torch.no_grad():
            weight.fill_(0.25)
            raise ZeroDivisionError("mine")
        with castor.gathered(self.model), torch.no_grad(), castor.gathered(weight, write=True):
            weight.fill_(0.25)
        with castor.gathered(self.model, write=True), torch.no_grad():
            for mine, expected in zip(self.model.parameters(), self.twin.parameters()):
                mine.copy_(expected)

    def test_what_was_written_in_place_is_neither_read_nor_saved(self):
        """Its master has other values. Where everything is resident it can be written at any time."""
        model = made()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        booster = Booster(plugin=GeminiPlugin(precision=None))
        booster.boost(model, optimizer)
        backward_of(model, 0)
        optimizer.step()
        before = model.state_dict()
        weight = model.blocks[1].norm.weight
        weight.detach().mul_(0.5)
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            for use in (
                model.state_dict,
                lambda: booster.save_model(model, f"{folder}/weights.safetensors"),
                lambda: booster.save_optimizer(optimizer, f"{folder}/run"),
                lambda: backward_of(model, 1),
            ):
                with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight was written in place, which its master has not seen"):
                    use()
            self.assertEqual(os.listdir(folder), [])
        optimizer.zero_grad()
        model.load_state_dict({"blocks.1.norm.weight": before["blocks.1.norm.weight"]}, strict=False)
        self.assert_same(model.state_dict(), before)

    def test_a_run_that_is_loaded_replaces_what_was_written_in_place(self):
        def resident():
            model = made()
            optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
            booster = Booster(plugin=GeminiPlugin(precision=None))
            booster.boost(model, optimizer)
            return booster, model, optimizer

        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            booster, model, optimizer = resident()
            backward_of(model, 0)
            optimizer.step()
            booster.save_optimizer(optimizer, folder)
            booster, other, its = resident()
            with torch.no_grad():
                other.blocks[1].norm.weight.mul_(0.5)
            booster.load_optimizer(its, folder)
        for one, of in ((model, optimizer), (other, its)):
            backward_of(one, 1)
            of.step()
        self.assert_same(other.state_dict(), model.state_dict())

    def test_a_parameter_and_a_part_of_the_model_are_not_pickled(self):
        for part in (self.model.head.weight, self.model.blocks[1], self.model.head):
            with self.assertRaisesRegex(RuntimeError, "not on the device now|cannot be pickled without it"):
                torch.save(part, io.BytesIO())
            with self.assertRaisesRegex(castor.Error, "belongs to a boosted model and cannot be pickled without it"):
                with castor.gathered(part):
                    torch.save(part, io.BytesIO())
        torch.save(self.model, io.BytesIO())

    def test_gathered_and_written_by_its_data_is_an_error_too(self):
        weight = self.model.blocks[1].norm.weight
        with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight was written within castor.gathered without write=True"):
            with castor.gathered(self.model):
                weight.data.mul_(2)
        with castor.gathered(weight, write=True):
            weight.data.fill_(1)
        with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight was given other memory"), castor.gathered(self.model):
            weight.data = weight.data.clone().add_(1)

    def test_gathered_of_no_boosted_model_is_refused(self):
        for of in (self.twin, self.twin.parameters(), self.twin.head.weight, list(self.twin.named_parameters())):
            with self.assertRaisesRegex(castor.Error, "no parameter of a model that was boosted"), castor.gathered(of):
                pass
        for of in (5, None, ["head.weight"], "head.weight", [None]):
            with self.assertRaisesRegex(castor.Error, "takes a model, parameters or pairs"), castor.gathered(of):
                pass
        for of in ([], torch.nn.GELU(), [*self.model.parameters(), torch.ones(2)]):
            with castor.gathered(of):
                pass

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


class DebugMode(SameWeights):
    def setUp(self):
        self.model, self.optimizer = boosted(debug=True)
        first_step = self.optimizer.castor_first_step
        self.addCleanup(first_step.released.leave)
        self.addCleanup(WATCH.remove, first_step)
        self.weight = self.model.blocks[1].norm.weight

    def step(self, seed):
        backward_of(self.model, seed)
        self.optimizer.step()

    def test_finds_an_access_before_it_happens(self):
        twin, loop = plain()
        for seed in range(2):
            self.step(seed)
            backward_of(twin, seed)
            loop.step()
            with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight .* castor.gathered"):
                self.weight.sum()
            with castor.gathered(self.weight):
                self.assertTrue(torch.equal(self.weight, twin.blocks[1].norm.weight))

    def test_finds_accesses_without_an_operator(self):
        self.step(0)
        for access in (torch.Tensor.tolist, torch.Tensor.data_ptr, torch.Tensor.__repr__):
            with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight: it is not on the device"):
                access(self.weight.detach())

    def test_finds_accesses_to_gradients(self):
        backward_of(self.model, 0)
        with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight is with Castor: optimizer.clip_grad_norm_"):
            self.weight.grad.sum()
        self.optimizer.zero_grad()

    def test_begins_outside_of_other_modes(self):
        with torch.device("cpu"), self.assertRaisesRegex(castor.Error, r"call that outside of `with torch.device\('cpu'\)`"):
            boosted(debug=True)


class Gradients(Pair):
    def setUp(self):
        super().setUp()
        for seed in range(2):
            self.both(lambda model: backward_of(model, seed))

    def assert_same_after_step(self):
        self.optimizer.step()
        self.assert_same_weights()

    def test_are_read_in_fp32(self):
        """Trap 2-20: reading of gradients."""
        for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
            self.assertTrue(torch.equal(castor.grad(mine).flatten(), self.loop.sums[expected]), name)

    def test_p_grad_is_there_and_says_where_the_gradient_is(self):
        """Trap 2-20: reading of `.grad`, as torch's clipping does."""
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
        self.both(lambda model: backward_of(model, 5))
        self.loop.step()
        self.assert_same_after_step()

    def test_are_read_clipped(self):
        """As after torch's own clipping."""
        norm = self.optimizer.clip_grad_norm_(0.01).item()
        for (name, mine), expected in zip(self.model.named_parameters(), self.twin.parameters()):
            clipped = self.loop.sums[expected].double() * (0.01 / (norm + 1e-6))
            torch.testing.assert_close(castor.grad(mine).flatten().double(), clipped, rtol=1e-6, atol=0, msg=name)

    def test_clipped_stay_as_they_are(self):
        """torch would take what comes later as it is, and clip it not."""
        self.optimizer.clip_grad_norm_(0.01)
        weight = self.model.head.weight
        for change in (
            lambda: castor.set_grad(weight, torch.zeros(weight.shape)),
            lambda: self.optimizer.clip_grad_norm_(1.0),
            lambda: backward_of(self.model, 2),
        ):
            with self.assertRaisesRegex(castor.Error, "were clipped, after which they stay as they are"):
                change()
        with torch.no_grad():
            loss_of(self.model, 2)
        self.loop.step(max_norm=0.01)
        self.assert_same_after_step()

    def test_clipped_to_0_are_zeros(self):
        self.optimizer.clip_grad_norm_(0.0)
        for gradients in self.loop.sums.values():
            gradients.zero_()
        self.loop.step()
        self.assert_same_after_step()

    def test_an_infinite_limit_only_measures(self):
        model, optimizer = boosted(max_norm=0.01)
        backward_of(model, 0)
        twin, loop = plain()
        backward_of(twin, 0)
        norm = optimizer.clip_grad_norm_(float("inf")).item()
        self.assertAlmostEqual(norm, loop.norm(), delta=1e-6 * norm)
        optimizer.step()
        loop.step(max_norm=0.01)
        self.assert_same(model.state_dict(), twin.state_dict())
        self.assertAlmostEqual(optimizer.get_grad_norm(), norm, delta=1e-6 * norm)
        for limit in (-1.0, float("nan")):
            with self.assertRaisesRegex(castor.Error, "max_norm takes 0 or more"):
                optimizer.clip_grad_norm_(limit)

    def test_a_step_that_updates_nothing_says_so(self):
        before = self.twin.state_dict()
        castor.set_grad(self.model.head.weight, torch.full_like(self.model.head.weight, float("inf"), dtype=torch.float32))
        self.optimizer.clip_grad_norm_(1.0)
        self.assertFalse(self.optimizer.skipped)
        with self.assertLogs("castor", "WARNING") as logged:
            self.optimizer.step()
        self.assertIn("hold inf or nan", logged.output[0])
        self.assertTrue(self.optimizer.skipped)
        self.assert_same(self.model.state_dict(), before)

    def test_can_be_replaced(self):
        """Trap 2-20: writing of gradients."""
        mine, expected = self.model.blocks[1].norm.weight, self.twin.blocks[1].norm.weight
        castor.set_grad(mine, torch.zeros_like(castor.grad(mine)))
        self.loop.sums[expected].zero_()
        self.loop.step()
        self.assert_same_after_step()

    def test_zero_grad_of_the_model_drops_them(self):
        self.model.zero_grad()
        self.assertIsNone(self.model.head.weight.grad)
        self.loop.sums.clear()
        self.both(lambda model: backward_of(model, 5))
        self.loop.step()
        self.assert_same_after_step()


class GivenGradients(Pair):
    """Trap 2-20: what a program writes to p.grad is never left out in silence."""

    def refused(self, message):
        with self.assertRaisesRegex(castor.Error, message):
            self.optimizer.step()
        self.optimizer.zero_grad()
        for parameter in self.model.parameters():
            parameter.grad = None
        self.step(1)
        self.assert_same_weights()

    def test_that_were_removed(self):
        backward_of(self.model, 0)
        self.model.blocks[0].norm.weight.grad = None
        self.refused("parameter.grad was removed by the program; the gradient of parameter blocks.0.norm.weight is with Castor")

    def test_that_a_part_of_the_model_drops(self):
        backward_of(self.model, 0)
        self.model.blocks[1].zero_grad()
        self.refused("parameter.grad was removed by the program; the gradient of parameter blocks.1.norm.weight")

    def test_that_were_set_after_backward(self):
        backward_of(self.model, 0)
        self.model.blocks[0].norm.weight.grad = torch.ones_like(self.model.blocks[0].norm.bias, device="cpu")
        self.refused("parameter.grad was set by the program; the gradient of parameter blocks.0.norm.weight is with Castor")

    def test_that_were_set_without_backward(self):
        weight = self.model.blocks[0].norm.weight
        weight.grad = torch.ones(weight.shape, dtype=weight.dtype)
        self.refused("parameter.grad was set by the program; gradients of parameter blocks.0.norm.weight go from backward")


class GivenMemory(Pair):
    """Trap 2-04: other memory in a parameter is named at its next use, whatever that is, and taken away."""

    def setUp(self):
        super().setUp()
        self.step(0)
        self.weight = self.model.blocks[0].norm.weight
        self.message = "parameter blocks.0.norm.weight was given other memory .* and has its own again now"

    def refused(self, use):
        theirs = torch.full((2, 16), 3.0)
        self.weight.data = theirs
        with self.assertRaisesRegex(castor.Error, self.message):
            use()
        self.step(1)
        self.assert_same_weights()
        self.assertTrue(torch.equal(theirs, torch.full((2, 16), 3.0)))

    def test_in_evaluation(self):
        self.refused(torch.no_grad()(lambda: loss_of(self.model, 0)))

    def test_between_forward_and_backward(self):
        loss = loss_of(self.model, 0)
        self.weight.data = torch.ones(3)
        with self.assertRaisesRegex(castor.Error, self.message):
            loss.backward()
        self.optimizer.zero_grad()
        self.step(1)
        self.assert_same_weights()

    def test_when_it_is_read(self):
        for read in (castor.master, lambda _: self.model.state_dict(), lambda _: self.optimizer.state_dict()):
            with self.subTest(read=read):
                self.setUp()
                self.refused(lambda: read(self.weight))

    def test_by_gathered(self):
        self.refused(lambda: castor.gathered(self.weight).__enter__())

    def test_within_gathered(self):
        """For longer than the model is on the device: what is Castor's moves, and what is the program's does not."""
        for write, n_elements in ((False, 32), (True, 3)):
            theirs = torch.full((n_elements,), 5, dtype=self.weight.dtype)
            with self.assertRaisesRegex(castor.Error, self.message), castor.gathered(self.weight, write=write):
                self.weight.data = theirs
            for seed in range(2, 5):
                self.step(seed)
            self.assert_same_weights()
            self.assertTrue(theirs.eq(5).all())

    def test_of_its_sizes_is_copied_where_it_may_be_written(self):
        theirs = torch.full((32,), 5, dtype=self.weight.dtype)
        with castor.gathered(self.weight, write=True):
            self.weight.data = theirs
        twin = self.twin.blocks[0].norm.weight
        with torch.no_grad():
            twin.fill_(5)
        self.loop.states[twin].master.fill_(5)
        for seed in range(2, 5):
            self.step(seed)
        self.assert_same_weights()
        self.assertTrue(theirs.eq(5).all())


class Gathered(Pair):
    def test_keeps_masters_of_what_is_not_written(self):
        """Weights of 16 bits are coarser than their masters. What is written through `.data`, or within another context, is."""
        self.step(0)
        with torch.no_grad():
            with castor.gathered(self.model, write=True):
                self.model.blocks[0].norm.weight.data[0] = 0.5
                with castor.gathered(self.model.head, write=True):
                    self.model.head.weight.add_(1)
            self.twin.blocks[0].norm.weight[0] = 0.5
            self.twin.head.weight.add_(1)
            for written in (self.twin.blocks[0].norm.weight, self.twin.head.weight):
                self.loop.states[written].master.copy_(written.flatten())
        for seed in range(1, 4):
            self.step(seed)
        self.assert_same_weights()

    def test_modules_run_without_gradients(self):
        """Trap 2-19: a method that reads a parameter and calls modules."""
        for seed in range(2):
            self.step(seed)
        with torch.no_grad():
            with castor.gathered(self.model):
                mine = self.model.head.weight.sum() + loss_of(self.model, 3)
                with castor.gathered(self.model.head):
                    again = loss_of(self.model, 3)
            self.assertEqual(mine.item(), (self.twin.head.weight.sum() + loss_of(self.twin, 3)).item())
            self.assertEqual(again.item(), loss_of(self.twin, 3).item())
            self.assertEqual(loss_of(self.model, 3).item(), again.item())
        self.step(4)
        self.assert_same_weights()

    def test_errors_say_what_would_hold_all(self):
        model, _ = boosted(device_budget="40KiB", chunk_bytes="4KiB")
        with self.assertRaisesRegex(castor.Error, "raise `device_budget` to") as caught, castor.gathered(model):
            pass
        self.assertEqual(caught.exception.available, 40 << 10)
        self.model, self.optimizer = boosted(device_budget=caught.exception.needed, chunk_bytes="4KiB")
        self.step(0)
        with castor.gathered(self.model):
            self.assertEqual(self.model.head.weight.sum().item(), self.twin.head.weight.sum().item())

    def test_modules_that_are_not_are_named(self):
        with torch.no_grad(), castor.gathered(self.model.embedding):
            with self.assertRaisesRegex(castor.Error, r"within castor.gathered\(\) only modules can run .* blocks.0.\S+ is not"):
                loss_of(self.model, 0)
        self.step(0)
        self.assert_same_weights()

    def test_passes_with_gradients_are_refused(self):
        with castor.gathered(self.model), self.assertRaisesRegex(castor.Error, "with gradients cannot begin within castor.gathered"):
            loss_of(self.model, 0)
        self.step(0)
        self.assert_same_weights()


class Groups(Pair):
    @staticmethod
    def groups(model):
        vectors = [p for p in model.parameters() if p.dim() < 2]
        matrices = [p for p in model.parameters() if p.dim() >= 2]
        return [{"params": matrices, "lr": 2e-2}, {"params": vectors, "weight_decay": 0.0, "betas": (0.8, 0.99)}]

    def test_have_their_own_values(self):
        self.model, self.optimizer = boosted(groups=self.groups)
        self.twin, self.loop = plain(groups=self.groups)
        for seed in range(3):
            self.step(seed)
        self.assert_same_weights()

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
            self.assert_same(model.state_dict(), twin.state_dict())

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
        self.assert_same(model.state_dict(), twin.state_dict())
        loss_of(model, 3).backward()
        with self.assertRaisesRegex(castor.Error, "raise micro_batches"):
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

    def test_a_model_ends_with_the_last_reference_to_it(self):
        """As in plain torch, where no garbage collector is needed; on a GPU the memory of a larger model waits for it."""
        boosted()  # torch's own imports leave garbage
        gc.collect()
        gc.disable()
        try:
            for n_steps, options in itertools.product((0, 1, 3), ({}, {"debug": True}, {"precision": "bf16", "max_norm": 1.0})):
                model, optimizer = boosted(torch.float32, **options)
                for seed in range(n_steps):
                    backward_of(model, seed)
                    optimizer.step()
                    optimizer.zero_grad()
                session, whole, block = (weakref.ref(one) for one in (optimizer.castor_session, model, model.blocks[0]))
                del model, optimizer
                self.assertEqual([one() for one in (whole, block, session)], [None] * 3, (n_steps, options))
        finally:
            gc.enable()

    def test_a_model_that_is_dropped_before_its_backward_pass(self):
        for dropped in ("model", "both"):
            model, optimizer = boosted()
            loss = loss_of(model, 0)
            del model
            if dropped == "both":
                del optimizer
                with contextlib.suppress(RuntimeError):
                    loss.backward()
                continue
            loss.backward()
            optimizer.step()
            twin, loop = plain()
            loss_of(twin, 0).backward()
            loop.step()
            weights = dict(optimizer.castor_session.state_dict())
            for name, weight in twin.named_parameters():
                self.assertTrue(torch.equal(weights[name].to(weight.device), weight), name)

    def test_a_session_outlives_passes_that_ctrl_c_has_left_open(self):
        """Whose end calls it: after the session it would read memory that is gone."""
        for n_steps in range(2):  # the first is watched
            model, optimizer = boosted()
            for seed in range(n_steps):
                backward_of(model, seed)
                optimizer.step()
            model.blocks[1].feed_forward.register_forward_pre_hook(interrupt)
            with self.assertRaises(KeyboardInterrupt):
                loss_of(model, 1)
            self.assertEqual(optimizer.castor_first_step in WATCH.of, n_steps == 0)
            watch = weakref.ref(optimizer.castor_first_step)
            session = weakref.ref(optimizer.castor_session)
            passes = list(optimizer.castor_first_step.passes.open)
            self.assertTrue(passes)
            del model, optimizer
            gc.collect()
            self.assertIsNotNone(session())
            self.assertIsNone(watch())
            del passes
            gc.collect()
            self.assertIsNone(session())


class Profiles(unittest.TestCase):
    def setUp(self):
        gc.collect()  # models of the cases before
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = f"{folder.name}/trace.json"

    def train(self, model, optimizer):
        for seed in range(4):
            backward_of(model, seed)
            optimizer.step()

    def test_have_the_units_steps_and_bytes_of_the_training(self):
        model, optimizer = boosted()
        with castor.profile(self.file):
            self.train(model, optimizer)
        found = json.loads(pathlib.Path(self.file).read_text())
        for block in ("blocks.0", "blocks.1", "blocks.2"):
            self.assertIn(block, found["units"])
        self.assertEqual(len(found["step_ends_ns"]), 4)
        self.assertEqual(found["step_ends_ns"], sorted(found["step_ends_ns"]))
        moved = castor.stats(model)["moved_bytes"]
        in_spans = {lane: sum(span[4] for span in found["spans"] if span[0] == lane) for lane in ("h2d", "d2h")}
        self.assertGreater(in_spans["d2h"], 0)
        self.assertEqual(in_spans["d2h"], moved["d2h"])
        self.assertGreater(in_spans["h2d"], 0)
        self.assertLessEqual(in_spans["h2d"], moved["h2d"])  # those for the next step have begun

    def test_are_written_where_an_exception_ends_the_block(self):
        model, optimizer = boosted()
        with self.assertRaisesRegex(ZeroDivisionError, "mine"), castor.profile(self.file):
            self.train(model, optimizer)
            raise ZeroDivisionError("mine")
        self.assertEqual(len(json.loads(pathlib.Path(self.file).read_text())["step_ends_ns"]), 4)

    def test_need_one_model_and_a_file(self):
        with self.assertRaisesRegex(castor.Error, "no boosted model is left"), castor.profile(self.file):
            self.train(*boosted())
        pairs = [boosted() for _ in range(2)]
        with self.assertRaisesRegex(castor.Error, "2 models are boosted; name one"), castor.profile(self.file):
            self.train(*pairs[1])
        with castor.profile(self.file, pairs[0][0]):
            self.train(*pairs[0])
        self.assertTrue(os.path.exists(self.file))
        for call, message in (
            (lambda: castor.profile("/nowhere/trace.json"), "/nowhere"),
            (lambda: castor.profile(self.file, nn.Linear(2, 2)), "was not boosted"),
        ):
            with self.subTest(message), self.assertRaisesRegex(castor.Error, message), call():
                self.fail("the block has begun")


def interrupt(*_):
    raise KeyboardInterrupt
