# SPDX-License-Identifier: Apache-2.0
"""What boosting casts and refuses of a model, what a step refuses, and what workers of a loader draw."""

import unittest

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from weights_cases import boosted


class Boosting(unittest.TestCase):
    def test_a_model_that_is_one_unit_is_named_by_its_class(self):
        model = nn.Linear(1024, 1024)
        with self.assertRaisesRegex(castor.Error, "unit Linear needs .* of parameters at once"):
            Booster(plugin=GeminiPlugin(device_budget="64KiB")).boost(model, torch.optim.AdamW(model.parameters()))

    def test_buffers_of_modules_without_parameters_are_cast(self):
        class Positions(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("table", torch.randn(1, 8, 16))
                self.register_buffer("not_saved", torch.randn(1), persistent=False)

            def forward(self, x):
                return x + self.table

        model = nn.Sequential(nn.Linear(16, 16), Positions(), nn.Linear(16, 16))
        table = model[1].table.clone()
        optimizer = torch.optim.AdamW(model.parameters())
        Booster(plugin=GeminiPlugin()).boost(model, optimizer)
        model(torch.randn(2, 8, 16)).sum().backward()
        optimizer.step()
        self.assertTrue(torch.equal(model[1].table, table.bfloat16()))
        self.assertEqual(model[1].not_saved.dtype, torch.float32)

    def test_what_has_no_sizes_yet_is_refused(self):
        model = nn.Sequential(nn.LazyLinear(4))
        with self.assertRaisesRegex(castor.Error, "0.weight gets its sizes from a first batch"):
            boosted(model)
        model(torch.ones(1, 3))
        boosted(model)

    def test_buffers_in_the_memory_of_parameters_are_refused(self):
        model = nn.Sequential(nn.Linear(4, 4))
        model.register_buffer("view", model[0].weight.detach())
        with self.assertRaisesRegex(castor.Error, "buffer view shares memory with parameter 0.weight"):
            boosted(model)
        model.view = model[0].weight.detach()[1:, ::2]
        with self.assertRaisesRegex(castor.Error, "buffer view shares memory with parameter 0.weight"):
            boosted(model)
        model.view = model.view.clone()
        boosted(model)

    def test_buffers_beside_parameters_stay_as_they_are(self):
        memory = torch.arange(12.0)
        model = nn.Module()
        model.weight = nn.Parameter(memory[4:8])
        model.register_buffer("ahead", memory[:4])
        model.register_buffer("behind", memory[8:])
        model.forward = lambda x: (model.weight * x + model.ahead + model.behind).sum()
        optimizer = boosted(model)
        model(torch.ones(4)).backward()
        optimizer.step()
        self.assertEqual((model.ahead.tolist(), model.behind.tolist()), ([0, 1, 2, 3], [8, 9, 10, 11]))
        self.assertNotEqual(model.state_dict()["weight"].tolist(), [4, 5, 6, 7])

    def test_gradients_from_before_are_refused(self):
        model = nn.Linear(4, 4)
        model(torch.ones(1, 4)).sum().backward()
        with self.assertRaisesRegex(castor.Error, "weight has a gradient from before boost.*zero_grad"):
            boosted(model)
        model.zero_grad()
        boosted(model)

    def test_options_that_others_leave_without_effect(self):
        for options, why in (
            ({"nvme_budget": "1GiB"}, "nvme_budget=…\\) has no effect: no folder"),
            ({"io_timeout": 1.0}, "io_timeout=…\\) has no effect: no folder"),
            ({"rounding_seed": 3}, "rounding_seed=…\\) has no effect: moments are fp32"),
            ({"speculative_updates": True}, "speculative_updates=…\\) has no effect: without max_norm"),
        ):
            with self.assertWarnsRegex(UserWarning, why):
                boosted(nn.Linear(4, 4), **options)


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad / (1 // 0)


class WithinAStep(unittest.TestCase):
    def setUp(self):
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.model[0].weight.requires_grad_(False)
        self.optimizer = boosted(self.model, max_norm=1.0, micro_batches=1)
        self.model(torch.ones(1, 4)).sum().backward()

    def test_masters_are_refused_as_other_values_are(self):
        with self.assertRaisesRegex(castor.Error, "a step is under way; end it with step"):
            castor.master(self.model[1].weight)

    def test_calls_while_weights_are_lent_lose_no_step(self):
        model = nn.Linear(4, 1)
        optimizer = boosted(model)
        for _ in range(2):
            loss = model(torch.ones(1, 4)).sum()
            with castor.gathered(model):
                with self.assertRaisesRegex(castor.Error, r"backward\(\) was called while weights are lent; leave castor.gathered first"):
                    loss.backward()
            model(torch.ones(1, 4)).sum().backward()
            with castor.gathered(model):
                with self.assertRaisesRegex(castor.Error, r"step\(\) was called while weights are lent; leave castor.gathered first"):
                    optimizer.step()
            optimizer.step()

    def test_values_are_saved_after_a_pass_that_broke_off(self):
        """In the words of the session, not of the border; and after zero_grad."""
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        optimizer = boosted(model)
        model(torch.ones(1, 4)).sum().backward()
        with self.assertRaises(ZeroDivisionError):
            model[1](Failing.apply(model[0](torch.ones(1, 4)))).sum().backward()
        for read in (lambda: castor.master(model[0].weight), optimizer.state_dict, model.state_dict):
            with self.assertRaisesRegex(castor.Error, "a call of this step has failed; drop the step with zero_grad"):
                read()
        optimizer.zero_grad()
        self.assertEqual(castor.master(model[0].weight).shape, (4, 4))

    def test_gradients_that_cannot_be_set(self):
        with self.assertRaisesRegex(castor.Error, "parameter 0.weight is frozen, so it has no gradient"):
            castor.set_grad(self.model[0].weight, torch.ones(4, 4))
        with self.assertRaisesRegex(castor.Error, "takes a dense tensor with the gradient of 1.weight, not one in torch.sparse_coo"):
            castor.set_grad(self.model[1].weight, torch.ones(4, 4).to_sparse())
        for limit in ("1", None):
            with self.assertRaisesRegex(castor.Error, "max_norm takes 0 or more"):
                self.optimizer.clip_grad_norm_(limit)
        self.optimizer.step()

    def test_states_of_a_negative_step(self):
        self.optimizer.step()
        states = self.optimizer.state_dict()
        next(iter(states["state"].values()))["step"] = -1
        with self.assertRaisesRegex(castor.Error, "has step -1; it counts updates"):
            self.optimizer.load_state_dict(states)
        with self.assertRaisesRegex(castor.Error, "a model is wanted, not 3"):
            castor.stats(3)

    def test_a_step_of_nothing_was_not_skipped(self):
        self.optimizer.zero_grad()
        (self.model(torch.ones(1, 4)).sum() * float("inf")).backward()
        self.optimizer.step()
        self.assertTrue(self.optimizer.skipped)
        self.optimizer.step()
        self.assertFalse(self.optimizer.skipped)


class Randomized(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, number):
        return torch.rand(()).item()


class Workers(unittest.TestCase):
    def test_draw_as_the_epoch_says(self):
        """An epoch that is begun anew has the numbers that it had."""
        made = lambda: GeminiPlugin().prepare_dataloader(Randomized(), batch_size=2, shuffle=True, num_workers=1)  # noqa: E731
        loader = made()
        epochs = [[batch.tolist() for batch in loader] for _ in range(3)]
        self.assertNotEqual(epochs[0], epochs[2])
        again = made()
        again.sampler.set_epoch(2)
        self.assertEqual([batch.tolist() for batch in again], epochs[2])
