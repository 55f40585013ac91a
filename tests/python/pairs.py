# SPDX-License-Identifier: Apache-2.0
"""A boosted model and its twin under a plain loop in torch, for cases that compare the two."""

import unittest

import torch

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
            self.assertTrue(torch.equal(weights[name], weight), name)


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
