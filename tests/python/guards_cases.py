# SPDX-License-Identifier: Apache-2.0
"""What may not be done to a boosted model is refused by name, and the model trains on."""

import copy
import inspect
import os
import pickle
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
from torch import nn

import castor
from boost_cases import loss_of
from castor import _shortage
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from pairs import backward_of, boosted, made, plain


class Guards(unittest.TestCase):
    def setUp(self):
        self.model, self.optimizer = boosted()

    def assert_trains(self):
        loss_of(self.model, 0).backward()
        self.optimizer.step()

    def test_other_things_than_a_model_and_an_optimizer(self):
        model, optimizer = made(), torch.optim.AdamW(made().parameters())
        booster = Booster(plugin=GeminiPlugin())
        for wrong, kinds in (
            ((optimizer, model), "AdamW and TiedModel"),
            ((None, optimizer), "NoneType and AdamW"),
            ((model, model.parameters()), "TiedModel and generator"),
            (("gpt2",), "str and NoneType"),
        ):
            with self.assertRaisesRegex(castor.Error, f"boost takes a torch.nn.Module .*, not {kinds}"):
                booster.boost(*wrong)

    def test_a_second_boost(self):
        with self.assertRaisesRegex(castor.Error, "embedding.weight belongs to a model that was boosted already"):
            Booster(plugin=GeminiPlugin()).boost(self.model, torch.optim.AdamW(self.model.parameters()))
        self.assert_trains()

    def test_a_second_boost_with_the_same_optimizer(self):
        booster = Booster(plugin=GeminiPlugin())
        with self.assertRaisesRegex(castor.Error, "the optimizer was boosted already, with this model"):
            booster.boost(self.model, self.optimizer)
        other = made()
        before = copy.deepcopy(other.state_dict())
        with self.assertRaisesRegex(castor.Error, "boosted already, with another model, which has the parameter embedding.weight"):
            booster.boost(other, self.optimizer)
        self.assertTrue(all(torch.equal(before[name], weight) for name, weight in other.state_dict().items()))
        self.assert_trains()

    def test_states_in_the_optimizer(self):
        self.assert_trains()
        weight = self.model.head.weight
        self.assertFalse(self.optimizer.state)
        for change in (
            lambda: self.optimizer.state[weight]["exp_avg"].zero_(),
            self.optimizer.state.clear,
            lambda: self.optimizer.state.update({weight: {}}),
            lambda: setattr(self.optimizer, "state", {}),
        ):
            with self.assertRaisesRegex(castor.Error, "states are with Castor: optimizer.state_dict"):
                change()
        self.assert_trains()

    def test_copies_of_the_optimizer(self):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(castor.Error, "neither copied nor pickled; optimizer.state_dict"):
                copied(self.optimizer)
        self.assert_trains()

    def test_gradients_of_zero(self):
        loss_of(self.model, 0).backward()
        with self.assertLogs("castor", "WARNING") as logged:
            self.optimizer.zero_grad(set_to_none=False)
            self.model.zero_grad(set_to_none=False)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("a parameter without a gradient is not updated", logged.output[0])
        with self.assertRaisesRegex(castor.Error, "set_grad takes a dense tensor with the gradient of embedding.weight, not None"):
            castor.set_grad(self.model.head.weight, None)
        self.assert_trains()

    def test_steps_that_may_be_half_done_are_not_dropped(self):
        """With a number of micro-batches updates begin in the last backward pass."""
        model, optimizer = boosted(micro_batches=1)
        twin, loop = plain()
        for seed in range(4):
            self.assertEqual(backward_of(model, seed), backward_of(twin, seed))
            with self.assertRaisesRegex(castor.Error, "updated already in the last backward pass .* end it with step"):
                optimizer.zero_grad()
            optimizer.step()
            loop.step()
        for name, weight in twin.state_dict().items():
            self.assertTrue(torch.equal(model.state_dict()[name], weight), name)

    def test_folders_of_nvme(self):
        with mock.patch.dict(os.environ, HOME="/home/of/nobody"):
            for given in ("~/states", Path("~/states"), ["~/states"]):
                with self.assertRaisesRegex(castor.Error, "mkdir -p /home/of/nobody/states") as caught:
                    boosted(nvme=given)
                self.assertEqual(caught.exception.option, "nvme")

    def test_calls_of_a_booster_with_what_was_not_boosted(self):
        booster = Booster(plugin=GeminiPlugin())
        other = made()
        plain = torch.optim.AdamW(other.parameters())
        with tempfile.TemporaryDirectory() as folder:
            for call, message in (
                (lambda: booster.save_optimizer(plain, f"{folder}/a"), "the optimizer was not boosted, .* class AdamW"),
                (lambda: booster.load_optimizer(plain, folder), "the optimizer was not boosted, .* class AdamW"),
                (lambda: booster.backward(loss_of(other, 0), plain), "the optimizer was not boosted, .* class AdamW"),
                (lambda: booster.backward(self.optimizer, loss_of(self.model, 0)), "the optimizer was not .* class Tensor"),
                (lambda: booster.no_sync(other), "the model was not boosted, .* class TiedModel"),
                (lambda: booster.no_sync(self.model.head), "the model was not boosted, .* give the whole model"),
                (lambda: booster.no_sync(self.optimizer), "the model was not boosted, .* class AdamW"),
            ):
                with self.assertRaisesRegex(castor.Error, message) as raised:
                    call()
                self.assertRegex(str(raised.exception), r"call booster.boost\(model, optimizer\) first")
        self.assertTrue(all(parameter.grad is None for parameter in other.parameters()))
        with booster.no_sync(self.model):
            booster.backward(loss_of(self.model, 0), self.optimizer)
        self.assert_trains()

    def test_a_scaler_of_torch_while_attributes_can_be_listed(self):
        """torch.amp.GradScaler is refused where it asks."""
        members = dict(inspect.getmembers(self.optimizer))
        self.assertIs(members["param_groups"], self.optimizer.param_groups)
        self.assertTrue(hasattr(self.optimizer, "_step_supports_amp_scaling"))
        self.assertIn("_step_supports_amp_scaling", dir(self.optimizer))
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(loss_of(self.model, 0)).backward()
        with self.assertRaisesRegex(castor.Error, "GradScaler does not reach the gradients") as raised:
            scaler.step(self.optimizer)
        self.assertEqual(raised.exception.option, "precision")
        self.optimizer.zero_grad()
        self.assert_trains()

    def test_moves(self):
        for move in (lambda m: m.to(torch.float16), lambda m: m.half(), lambda m: m.to("meta"), lambda m: m.double()):
            with self.assertRaisesRegex(castor.Error, "cannot be moved to another device or dtype"):
                move(self.model)
        self.assertIs(self.model.to("cpu"), self.model)
        self.model.to(torch.bfloat16)
        self.assert_trains()

    def test_new_parameters(self):
        """Trap 2-04: parameters that appear later."""
        self.model.extra = nn.Parameter(torch.zeros(3))
        with self.assertRaisesRegex(castor.Error, "new parameter extra"):
            loss_of(self.model, 0)
        del self.model.extra
        self.assert_trains()

    def test_replaced_memory(self):
        loss = loss_of(self.model, 0)
        self.model.blocks[0].norm.weight.data = torch.ones(32, dtype=torch.bfloat16)
        with self.assertRaisesRegex(castor.Error, "blocks.0.norm.weight was given other memory .* has its own again now"):
            loss.backward()
        self.optimizer.zero_grad()
        self.assert_trains()

    def test_a_gradient_of_gradients(self):
        """Trap 2-13."""
        loss = loss_of(self.model, 0)
        with self.assertRaisesRegex(castor.Error, "create_graph"):
            torch.autograd.grad(loss, self.model.embedding.weight, create_graph=True)

    def test_a_sparse_gradient(self):
        """Trap 2-37: tensors of another layout."""
        model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        Booster(plugin=GeminiPlugin()).boost(model, optimizer)
        with self.assertRaisesRegex(castor.Error, "the gradient of parameter 0.weight is sparse"):
            model(torch.tensor([1, 2])).sum().backward()

    def test_an_unknown_option_of_a_plugin(self):
        with self.assertRaisesRegex(castor.Error, "did you mean max_norm"):
            TorchDDPPlugin(max_nrom=1.0)

    def test_options_without_effect_say_why(self):
        with self.assertWarnsRegex(UserWarning, "hidden_dim=… has no effect|hidden_dim=…\\) has no effect: chunks are laid out"):
            GeminiPlugin(hidden_dim=64)

    def test_parameters_that_share_elements(self):
        model = made()
        model.head.weight = nn.Parameter(model.embedding.weight.data)
        for plugin in (GeminiPlugin(precision=None), GeminiPlugin(precision="bf16")):
            with self.assertRaisesRegex(castor.Error, "parameters embedding.weight and head.weight share memory; .* use one nn.Parameter"):
                Booster(plugin=plugin).boost(model, torch.optim.AdamW(model.parameters()))
        model.head.weight.data = model.head.weight.data.clone()
        Booster(plugin=GeminiPlugin(precision=None)).boost(model, torch.optim.AdamW(model.parameters()))

    def test_the_log_says_what_a_device_budget_should_be(self):
        """torch's allocator calls this on a GPU, before it raises torch.OutOfMemoryError."""

        class Living:
            pass

        session = Living()
        for reserved, enough in ((17 << 30, 20480 + 96), (19 << 30, 21504 + 96)):  # the allocator may have 18 GiB, and 2 are chunks'
            with mock.patch.dict(_shortage.BUDGETS, {session: (torch.device("cuda", 0), 20 << 30)}), mock.patch.object(
                torch.cuda, "memory_reserved", lambda device, n_bytes=reserved: n_bytes
            ):
                with self.assertLogs("castor", "WARNING") as log:
                    _shortage.explain(0, 96 << 20, 18 << 30, 100 << 30)
                with self.assertNoLogs("castor"):
                    _shortage.explain(1, 96 << 20, 18 << 30, 100 << 30)  # another GPU
            self.assertRegex(log.output[0], f"need 96MiB more .* device_budget='20480MiB' .* raise it to '{enough}MiB' or more")

    def test_embeddings_that_write_their_weight(self):
        for module in (nn.Embedding(8, 4, max_norm=0.5), nn.EmbeddingBag(8, 4, max_norm=0.5)):
            model = nn.Sequential(module, nn.Linear(4, 4))
            with self.assertRaisesRegex(castor.Error, "module 0 has max_norm=0.5, with which it writes its weight"):
                Booster(plugin=GeminiPlugin()).boost(model, torch.optim.AdamW(model.parameters()))

    def test_modules_of_torch_jit(self):
        model = nn.Sequential(torch.jit.script(nn.Linear(4, 4)), nn.Linear(4, 4))
        with self.assertRaisesRegex(castor.Error, "module 0 was made by torch.jit, and takes no hooks"):
            Booster(plugin=GeminiPlugin()).boost(model, torch.optim.AdamW(model.parameters()))

    def test_gradients_that_are_removed_between_micro_batches(self):
        model, optimizer = boosted()
        backward_of(model, 0)
        for parameter in model.parameters():
            parameter.grad = None
        with self.assertRaisesRegex(castor.Error, "parameter.grad was removed by the program; the gradient of parameter"):
            backward_of(model, 1)
        optimizer.zero_grad()
        twin, loop = plain()
        for seed in (2, 3):
            self.assertEqual(backward_of(model, seed), backward_of(twin, seed))
        optimizer.step(), loop.step()
        self.assertEqual(backward_of(model, 4), backward_of(twin, 4))

    def test_parameters_on_several_devices(self):
        model = made()
        model.head = nn.Linear(32, 64, bias=False, device="meta")
        with self.assertRaisesRegex(castor.Error, "several devices .*head.weight on meta"):
            Booster(plugin=GeminiPlugin()).boost(model, torch.optim.AdamW(model.parameters()))
