# SPDX-License-Identifier: Apache-2.0
"""What may not be done to a boosted model is refused by name, and the model trains on."""

import unittest

import torch
from torch import nn

import castor
from boost_cases import loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from pairs import boosted, made


class Guards(unittest.TestCase):
    def setUp(self):
        self.model, self.optimizer = boosted()

    def assert_trains(self):
        loss_of(self.model, 0).backward()
        self.optimizer.step()

    def test_a_second_boost(self):
        with self.assertRaisesRegex(castor.Error, "embedding.weight belongs to a model that was boosted already"):
            Booster(plugin=GeminiPlugin()).boost(self.model, torch.optim.AdamW(self.model.parameters()))
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
        with self.assertRaisesRegex(castor.Error, "blocks.0.norm.weight was given other memory"):
            loss.backward()

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

    def test_parameters_on_several_devices(self):
        model = made()
        model.head = nn.Linear(32, 64, bias=False, device="meta")
        with self.assertRaisesRegex(castor.Error, "several devices .*head.weight on meta"):
            Booster(plugin=GeminiPlugin()).boost(model, torch.optim.AdamW(model.parameters()))
