# SPDX-License-Identifier: Apache-2.0
"""Weights that are used outside of their modules: by modules around them, by losses, after results that hide them."""

import copy
import dataclasses
import os
import subprocess
import sys
import threading
import unittest

import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import castor
from castor._outside import WATCH, OperatorWatch
from pairs import Twins, in_the_smallest_budgets
from where import DEVICE

TOKENS = torch.arange(12, device=DEVICE).reshape(2, 6)
TIGHT = {"device_budget": "5KiB", "chunk_bytes": "1KiB"}


class Decoder(nn.Module):
    """head: its module is called ('module'), its weight used by forward ('within') or by the loss alone ('loss'). tied: it is
    the embedding's."""

    def __init__(self, head, tied=False):
        super().__init__()
        self.head_is = head
        self.embedding = nn.Embedding(32, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 32, bias=False)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        hidden = self.body(self.embedding(tokens))
        if self.head_is == "module":
            return self.head(hidden)
        return nn.functional.linear(hidden, self.head.weight) if self.head_is == "within" else hidden


class Outside(Twins):
    """Weights that are used outside of their modules: from the smallest budgets, which are known in the first step."""

    def check_outside(self, head, loss, tied=False):
        self.seeds = []

        def counted(model, seed):
            self.seeds.append(seed)
            return loss(model, torch.randint(32, (4, 6), generator=torch.Generator().manual_seed(seed)).to(DEVICE))

        self.check(lambda: Decoder(head, tied), counted, n_steps=4, chunk_bytes="1KiB")
        begun_anew = [seed for seed, after in zip(self.seeds, self.seeds[1:]) if after == 0]
        self.assertLessEqual(set(begun_anew), {0, 3}, "a step after the first was refused")

    def test_by_the_module_around_it(self):
        for tied in (False, True):
            self.check_outside("within", lambda model, tokens: model(tokens).square().mean(), tied)

    def test_by_the_loss(self):
        """As a loss in chunks does, whose head is never called."""

        def loss(model, tokens):
            hidden = model(tokens)
            return sum((part @ model.head.weight.t()).square().mean() for part in hidden.chunk(2))

        for tied in (False, True):
            self.check_outside("loss", loss, tied)

    def test_one_that_has_no_room_leaves_the_model_as_it_was(self):
        class Probed(nn.Sequential):
            probes = False

            def forward(self, x):
                for part in self:
                    x = torch.tanh(part(x))
                if self.probes:
                    self.norms = [part.weight.norm() for part in self]
                return x

        def make():
            return Probed(*(nn.Linear(16, 16) for _ in range(4)))

        def loss(model, seed):
            return model(torch.randn(4, 16, generator=torch.Generator().manual_seed(seed)).to(DEVICE)).square().sum()

        def run(device_budget):
            self.steps(*self.boosted_twin(make, device_budget=device_budget, chunk_bytes="1KiB"), loss, range(3))
            return device_budget

        twin, loop = self.plain_twin(make)
        model, optimizer = self.boosted_twin(make, device_budget=in_the_smallest_budgets(run, "device"), chunk_bytes="1KiB")
        model.probes = True
        with self.assertRaisesRegex(castor.Error, "0.weight is used outside of its module: device tier"):
            loss(model, 0)
        optimizer.zero_grad()
        model.probes = False
        self.assertEqual(self.steps(model, optimizer, loss, range(3)), self.steps(twin, loop, loss, range(3)))
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_by_the_loss_after_a_part_of_the_model(self):
        def loss(model, tokens):
            return (model.body(model.embedding(tokens)) @ model.head.weight.t()).square().mean()

        self.check_outside("loss", loss)

    def test_by_the_module_and_the_loss(self):
        """A penalty on every weight, which needs them all at once."""

        def loss(model, tokens):
            return model(tokens).square().mean() + 0.1 * sum(p.square().sum() for p in model.parameters())

        self.check_outside("module", loss)

    def test_by_an_evaluation_as_by_the_loss(self):
        def loss(model, tokens):
            return of_head(model, tokens)

        twin, loop = self.plain_twin(lambda: Decoder("loss"))
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"), device_budget="5KiB", chunk_bytes="1KiB")
        tokens = torch.arange(12).reshape(2, 6)
        for _ in range(3):
            for one, its in ((model, optimizer), (twin, loop)):
                for _ in range(2):
                    loss(one, tokens).backward()
                its.step()
            with torch.no_grad():
                self.assertTrue(torch.equal(loss(model, tokens), loss(twin, tokens)))
            with castor.gathered(model.body):
                self.assertTrue(torch.equal(model.body[2].weight, twin.body[2].weight))
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_too_small_a_budget_says_why(self):
        model, _ = self.boosted_twin(lambda: Decoder("loss"), device_budget="2KiB", chunk_bytes="1KiB")
        with self.assertRaisesRegex(castor.Error, "parameter head.weight is used outside of its module: .*device_budget"):
            (model(torch.ones(2, 6, dtype=torch.int64)) @ model.head.weight.t()).sum().backward()

    def test_too_small_a_budget_is_no_end(self):
        """What was refused is not fetched from then on."""
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"), device_budget="2KiB", chunk_bytes="1KiB")
        for _ in range(2):
            with self.assertRaisesRegex(castor.Error, "parameter head.weight is used outside"):
                of_head(model).backward()
            optimizer.zero_grad()
        model(TOKENS).square().mean().backward()
        optimizer.step()


def of_head(model, tokens=TOKENS):
    return (model(tokens) @ model.head.weight.t()).square().mean()


class Losses(Twins):
    """That use the head, whose module they do not call, in any order of calls."""

    def assert_trains(self, step, make=lambda: Decoder("loss"), n_steps=3, **options):
        """step: takes a model, its optimizer and a number."""
        model, optimizer = self.boosted_twin(make, **{**TIGHT, **options})
        twin, loop = self.plain_twin(make)
        for number in range(n_steps):
            self.assertEqual(step(model, optimizer, number), step(twin, loop, number))
        self.assert_same(model.state_dict(), twin.state_dict())
        self.assertNotIn(optimizer.castor_first_step, WATCH.of)

    def test_of_one_forward_pass(self):
        def step(model, optimizer, number):
            hidden = model(TOKENS)
            first = (hidden @ model.head.weight.t()).square().mean()
            first.backward(retain_graph=True)
            second = (hidden @ model.head.weight.t()).mean()
            second.backward()
            optimizer.step()
            return first.item(), second.item()

        self.assert_trains(step)
        self.assert_trains(step, device_budget=None)

    def test_of_two_forward_passes(self):
        def step(model, optimizer, number):
            loss = of_head(model) + of_head(model, TOKENS + 1)
            loss.backward()
            optimizer.step()
            return loss.item()

        self.assert_trains(step)

    def test_of_every_other_micro_batch(self):
        def step(model, optimizer, number):
            model(TOKENS).square().mean().backward()
            of_head(model).backward()
            optimizer.step()

        self.assert_trains(step)

    def test_after_passes_without_gradients(self):
        def step(model, optimizer, number):
            with torch.no_grad():
                before = model(TOKENS).sum().item()
            hidden = model(TOKENS)
            with torch.no_grad():
                norm, reference = model.head.weight.norm().item(), model(TOKENS + 1)
            ((hidden - reference) @ model.head.weight.t()).square().mean().backward()
            optimizer.step()
            return before, norm

        self.assert_trains(step)

    def test_in_a_checkpoint(self):
        for reentrant in (False, True):

            def step(model, optimizer, number):
                def loss(hidden):
                    return (hidden @ model.head.weight.t()).square().mean()

                checkpoint(loss, model(TOKENS), use_reentrant=reentrant).backward()
                optimizer.step()

            self.assert_trains(step)

    def test_of_a_result_of_any_kind(self):
        @dataclasses.dataclass
        class Hidden:
            states: torch.Tensor

        class Wrapped(Decoder):
            def forward(self, tokens):
                return Hidden(super().forward(tokens))

        def step(model, optimizer, number):
            (model(TOKENS).states @ model.head.weight.t()).square().mean().backward()
            optimizer.step()

        self.assert_trains(step, lambda: Wrapped("loss"))

    def test_beside_other_backward_passes(self):
        """Of a model that was not boosted, and in another thread."""

        def other():
            torch.ones(3, requires_grad=True).sum().backward()

        def step(model, optimizer, number):
            hidden = model(TOKENS)
            other()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            (hidden @ model.head.weight.t()).square().mean().backward()
            optimizer.step()

        self.assert_trains(step)

    def test_of_two_models_at_a_time(self):
        pairs = [self.boosted_twin(lambda: Decoder("loss"), **TIGHT) for _ in range(2)]
        twins = [self.plain_twin(lambda: Decoder("loss")) for _ in range(2)]
        for (one, of_one), (other, of_other) in (pairs, twins):
            for _ in range(2):
                hidden, its_hidden = one(TOKENS), other(TOKENS)
                (its_hidden @ other.head.weight.t()).square().mean().backward()
                of_other.step()
                (hidden @ one.head.weight.t()).square().mean().backward()
                of_one.step()
        for (model, optimizer), (twin, _) in zip(pairs, twins):
            self.assert_same(model.state_dict(), twin.state_dict())
            self.assertNotIn(optimizer.castor_first_step, WATCH.of)

    def test_of_sparse_tensors(self):
        def step(model, optimizer, number):
            hidden = model(TOKENS).reshape(12, 8)
            loss = (torch.sparse.mm(torch.eye(12).to_sparse(), hidden) @ model.head.weight.t()).square().mean()
            loss.backward()
            optimizer.step()

        self.assert_trains(step)

    def test_before_parts_are_called(self):
        """The head's module, and another part, after a step, after gradients were dropped and beside the loss."""

        def step(model, optimizer, number):
            loss = of_head(model) + model.head(model.body(model.embedding(TOKENS + 1))).square().mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                return model.head(torch.ones(2, 8)).sum().item(), model.body(torch.ones(2, 8)).sum().item()

        self.assert_trains(step)
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"), **TIGHT)
        self.steps(model, optimizer, lambda model, _: of_head(model), range(2))
        of_head(model).backward()
        optimizer.zero_grad()
        with torch.no_grad():
            for part in (model.body, model.head):
                self.assertTrue(part(torch.ones(2, 8)).isfinite().all())

    def test_leave_weights_readable_after_gradients_were_dropped(self):
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"), **TIGHT)
        self.steps(model, optimizer, lambda model, _: of_head(model), range(2))
        before = model.state_dict()
        of_head(model).backward()
        optimizer.zero_grad()
        self.assert_same(model.state_dict(), before)
        self.assertEqual(len(optimizer.state_dict()["state"]), len(before))
        model.load_state_dict({name: torch.zeros_like(values) for name, values in before.items()})
        with castor.gathered(model.head.weight):
            self.assertFalse(model.head.weight.any())

    def test_between_which_gradients_are_dropped(self):
        """zero_grad() between forward and backward drops what came before."""
        for drops in (True, False):

            def step(model, optimizer, number):
                if number and drops:
                    of_head(model).backward()
                loss = of_head(model)
                if hasattr(optimizer, "zero_grad"):
                    optimizer.zero_grad()
                else:
                    optimizer.sums.clear()
                loss.backward()
                optimizer.step()

            self.assert_trains(step)

    def test_do_not_hide_gradients_from_clipping(self):
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"))
        for _ in range(2):
            of_head(model).backward()
            model(TOKENS)
            self.assertIsNotNone(castor.grad(model.head.weight))
            with self.assertRaisesRegex(RuntimeError, "is with Castor"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    def test_know_parameters_whose_memory_was_replaced(self):
        """Another tensor may have the address of the old storage."""
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"))
        model(TOKENS)  # is watched from here on
        uses = optimizer.castor_first_step
        other = torch.ones(3)
        uses.parameters[other.untyped_storage()._cdata] = model.head.weight
        self.assertEqual(other.sum().item(), 3)
        self.assertFalse(uses.kept)
        uses.pause()

    def test_within_another_mode_are_refused(self):
        """Which would end before the watch of operators, and takes the last of all modes with it."""
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"), **TIGHT)
        with FlopCounterMode(display=False):
            hidden = model(TOKENS)
        self.assertNotIn(optimizer.castor_first_step, WATCH.of)
        with self.assertRaisesRegex(RuntimeError, "parameter head.weight: it is not on the device"):
            (hidden @ model.head.weight.t()).sum().backward()

    def test_leave_copies_of_parts_alone(self):
        model, optimizer = self.boosted_twin(lambda: Decoder("loss"))
        with castor.gathered(model):
            copied = copy.deepcopy(model.body)
        self.steps(model, optimizer, lambda model, _: of_head(model), range(2))
        n_watched = len(WATCH.of)
        copied(torch.ones(2, 8, requires_grad=True)).sum().backward()
        self.assertEqual(len(WATCH.of), n_watched)


class Nested(torch.autograd.Function):
    """Its backward pass runs another one within, n_left times, and calls `innermost` at last. From a depth of 60 on autograd
    uses a thread of its own, as it does on GPUs."""

    @staticmethod
    def forward(ctx, x, n_left, innermost):
        ctx.n_left, ctx.innermost = n_left, innermost
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.n_left == 0:
            ctx.innermost()
        else:
            with torch.enable_grad():
                Nested.apply(torch.ones(1, requires_grad=True), ctx.n_left - 1, ctx.innermost).sum().backward()
        return gradient, None, None


def watch_ends_where_it_began():
    """Whether one that was left in a thread of autograd's stays, in the thread that entered it, until that leaves it."""
    watch, threads = OperatorWatch(), []

    def leave():
        threads.append(threading.get_ident())
        watch.leave()

    uses = type("Uses", (), {"used": lambda self, tensor: None})()
    watch.add(uses)
    result = Nested.apply(torch.ones(1, requires_grad=True), 70, leave).sum()
    watch.of.discard(uses)
    result.backward()
    stayed = watch in _get_current_dispatch_mode_stack()
    watch.leave()
    return [threads != [threading.get_ident()], stayed, watch in _get_current_dispatch_mode_stack()]


class Watching(unittest.TestCase):
    def test_does_not_end_in_inference_mode_that_began_since(self):
        """At whose end torch would expect a mode that is gone."""

        class Uses:
            pass

        for outside in (True, False):
            watch, uses = OperatorWatch(), Uses()
            if outside:
                watch.add(uses)
            with torch.inference_mode():
                watch.add(uses)
                watch.remove(uses)
                self.assertEqual(watch in _get_current_dispatch_mode_stack(), outside)
            torch.randn(3, generator=torch.Generator())  # has no tensor as an argument
            watch.leave()
            self.assertNotIn(watch, _get_current_dispatch_mode_stack())
            torch.randn(3, generator=torch.Generator())

    def test_ends_in_the_thread_in_which_it_began(self):
        """In a process of its own: after autograd has begun a thread, processes cannot be forked."""
        program = "import outside_cases; print(outside_cases.watch_ends_where_it_began())"
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run([sys.executable, "-c", program], env=paths, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout.strip(), "[True, True, False]", done.stderr)
