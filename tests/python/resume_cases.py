# SPDX-License-Identifier: Apache-2.0
"""Trainings that go on in another session: masters, states of parameters frozen meanwhile, commits, torn checkpoints."""

import os
import tempfile
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster, _runs
from castor.booster.plugin import GeminiPlugin
from castor.nn.optimizer import HybridAdam
from forks import in_a_fork
from pairs import VALUES, SameWeights, backward_of, boosted, made, plain

TIGHT = {"precision": None, "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB"}


def step(model, optimizer, seed):
    backward_of(model, seed)
    optimizer.step()


def masters(model):
    return {name: castor.master(parameter) for name, parameter in model.named_parameters()}


class Masters(SameWeights):
    """Of bf16 parameters: with their weights alone the bits would be others after a step."""

    def expected(self, n_steps):
        twin, loop = plain()
        for seed in range(n_steps):
            step(twin, loop, seed)
        return {name: loop.states[parameter].master.view_as(parameter) for name, parameter in twin.named_parameters()}

    def test_of_an_optimizer_that_made_steps_go_on_under_a_booster(self):
        model = made()
        optimizer = HybridAdam(model.parameters(), **VALUES)
        for seed in range(2):
            step(model, optimizer, seed)
            optimizer.zero_grad()
        Booster(plugin=GeminiPlugin(**TIGHT)).boost(model, optimizer)
        step(model, optimizer, 2)
        self.assert_same(masters(model), self.expected(3))

    def test_are_in_state_dicts(self):
        """In either order of loading, for the weights are the same."""
        model, optimizer = boosted()
        for seed in range(2):
            step(model, optimizer, seed)
        weights, states = model.state_dict(), optimizer.state_dict()
        for model_first in (True, False):
            other, its_optimizer = boosted(device_budget="300KiB")
            if model_first:
                other.load_state_dict(weights)
            its_optimizer.load_state_dict(states)
            if not model_first:
                other.load_state_dict(weights)
            step(other, its_optimizer, 2)
            self.assert_same(masters(other), self.expected(3))

    def test_keep_the_masters_where_weights_are_read_after_a_run(self):
        """As scripts do that call load_model last."""
        with tempfile.TemporaryDirectory() as folder:
            model, optimizer = boosted()
            booster = Booster(plugin=GeminiPlugin())
            for seed in range(2):
                step(model, optimizer, seed)
            booster.save_model(model, f"{folder}/weights.safetensors")
            booster.save_optimizer(optimizer, folder)
            other, its_optimizer = boosted()
            booster.load_optimizer(its_optimizer, folder)
            booster.load_model(other, f"{folder}/weights.safetensors")
            step(other, its_optimizer, 2)
            self.assert_same(masters(other), self.expected(3))

    def test_go_from_a_boosted_optimizer_to_one_alone_and_back(self):
        model, optimizer = boosted()
        step(model, optimizer, 0)
        alone = made()
        alone.load_state_dict(model.state_dict())
        hybrid = HybridAdam(alone.parameters(), **VALUES)
        hybrid.load_state_dict(optimizer.state_dict())
        step(alone, hybrid, 1)
        other, its_optimizer = boosted()
        other.load_state_dict(alone.state_dict())
        its_optimizer.load_state_dict(hybrid.state_dict())
        step(other, its_optimizer, 2)
        self.assert_same(masters(other), self.expected(3))


class FrozenMeanwhile(SameWeights):
    def test_keep_their_moments_in_state_dicts(self):
        (model, optimizer), (twin, loop) = boosted(torch.float32), plain(torch.float32)
        for seed in range(2):
            step(model, optimizer, seed)
            step(twin, loop, seed)
        model.blocks[0].requires_grad_(False)
        states = optimizer.state_dict()
        self.assertEqual(len(states["state"]), len(list(model.parameters())), "as torch's")
        other, its_optimizer = boosted(torch.float32)
        other.load_state_dict(model.state_dict())
        its_optimizer.load_state_dict(states)
        step(other, its_optimizer, 2)
        step(twin, loop, 2)
        self.assert_same(other.state_dict(), twin.state_dict())


class Commits(SameWeights):
    """durability='commit': what is on NVMe when the process ends is the last commit."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def boosted(self, **options):
        options = {"nvme": self.folder, "nvme_offload_fraction": 1.0, "durability": "commit", **options}
        return boosted(**options)

    def test_have_their_groups_where_the_process_ends_right_after_one(self):
        def killed():
            model, optimizer = self.boosted()
            booster = Booster(plugin=GeminiPlugin())
            for seed, rate in enumerate((0.25, 0.125)):
                step(model, optimizer, seed)
                optimizer.param_groups[0]["lr"] = rate
                with mock.patch("castor.booster._runs.name_groups", **({} if seed else {"wraps": _runs.name_groups})):
                    booster.save_optimizer(optimizer, self.folder)
            return None

        in_a_fork(killed)
        model, optimizer = self.boosted()
        Booster(plugin=GeminiPlugin()).load_optimizer(optimizer, self.folder)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.125)

    def test_are_continued_after_the_process_has_ended(self):
        def killed():
            model, optimizer = self.boosted()
            booster = Booster(plugin=GeminiPlugin())
            for seed in range(2):
                step(model, optimizer, seed)
            booster.save_optimizer(optimizer, self.folder)
            booster.save_optimizer(optimizer, os.path.join(self.folder, "elsewhere"))
            step(model, optimizer, 2)
            optimizer.param_groups[0]["lr"] = 0.125  # of the next step
            booster.save_optimizer(optimizer, self.folder)
            step(model, optimizer, 3)  # not committed
            return None

        in_a_fork(killed)
        twin, loop = plain()
        for seed in range(3):
            step(twin, loop, seed)
        model, optimizer = self.boosted()
        Booster(plugin=GeminiPlugin()).load_optimizer(optimizer, self.folder)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.125)
        loop.groups[0]["lr"] = 0.125
        self.assert_same(model.state_dict(), twin.state_dict())
        step(model, optimizer, 4)
        step(twin, loop, 4)
        self.assert_same(model.state_dict(), twin.state_dict())


class TornCheckpoints(SameWeights):
    def test_a_whole_one_can_be_loaded_after(self):
        with tempfile.TemporaryDirectory() as folder:
            model, optimizer = boosted()
            booster = Booster(plugin=GeminiPlugin())
            step(model, optimizer, 0)
            for name in ("whole", "torn"):
                booster.save_optimizer(optimizer, f"{folder}/{name}")
            data = max(Path(f"{folder}/torn").glob("*"), key=lambda file: file.stat().st_size)
            content = bytearray(data.read_bytes())
            content[len(content) // 2] ^= 0x55
            data.write_bytes(content)
            other, its_optimizer = boosted()
            with self.assertRaises(castor.Error) as raised:
                booster.load_optimizer(its_optimizer, f"{folder}/torn")
            self.assertEqual(raised.exception.kind, "io")
            with self.assertRaisesRegex(castor.Error, "resume it from a whole checkpoint"):
                backward_of(other, 1)
            booster.load_optimizer(its_optimizer, f"{folder}/whole")
            for each, its in ((model, optimizer), (other, its_optimizer)):
                step(each, its, 1)
            self.assert_same(masters(other), masters(model))


class DamagedGroups(SameWeights):
    def test_are_refused_or_have_no_effect(self):
        """A flipped bit here and there in the values of the groups, and in what the zip file says of them."""
        with tempfile.TemporaryDirectory() as folder:
            model, optimizer = boosted()
            booster = Booster(plugin=GeminiPlugin())
            step(model, optimizer, 0)
            booster.save_optimizer(optimizer, folder)
            (file,) = Path(folder).glob("castor-*.groups")
            content = file.read_bytes()
            before = {**optimizer.param_groups[0]}
            at = content.index(b"weight_decay")
            n_refused = 0
            for place in range(at, at + 200, 8):
                file.write_bytes(content[:place] + bytes([content[place] ^ 0x04]) + content[place + 1 :])
                other, its_optimizer = boosted()
                try:
                    booster.load_optimizer(its_optimizer, folder)
                except castor.Error as error:
                    self.assertIn(error.kind, ("io", "usage"))
                    n_refused += 1
                self.assertEqual({**its_optimizer.param_groups[0], "params": 0}, {**before, "params": 0})
            self.assertGreater(n_refused, 10)


class WithoutAnOptimizer(SameWeights):
    """Models for inference, as teachers, under budgets of their own."""

    def test_is_frozen_and_within_its_budgets(self):
        torch.manual_seed(0)
        model, twin = TiedModel(), TiedModel()
        twin.load_state_dict(model.state_dict())
        Booster(plugin=GeminiPlugin(**TIGHT)).boost(model)
        self.assertFalse(any(parameter.requires_grad for parameter in model.parameters()))
        with torch.no_grad():
            self.assertEqual(loss_of(model, 0).item(), loss_of(twin, 0).item())
        self.assertLessEqual(castor.stats(model)["peak_bytes"]["device"], 200 * 1024)

    def test_gradients_pass_through_it(self):
        teacher, twin = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), None
        twin = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        twin.load_state_dict(teacher.state_dict())
        Booster(plugin=GeminiPlugin(precision=None)).boost(teacher)
        inputs = [torch.ones(2, 4, requires_grad=True) for _ in range(2)]
        for model, x in zip((teacher, twin), inputs):
            model(x).pow(2).sum().backward()
        self.assertTrue(torch.equal(inputs[0].grad, inputs[1].grad))

    def test_a_precision_counts(self):
        model = TiedModel()
        Booster(plugin=GeminiPlugin(precision="bf16")).boost(model)
        self.assertEqual({parameter.dtype for parameter in model.parameters()}, {torch.bfloat16})
