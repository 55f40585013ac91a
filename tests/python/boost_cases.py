# SPDX-License-Identifier: Apache-2.0
"""Unchanged models under a Booster: the same bits under every budget, and what is refused."""

import tempfile
import unittest

import torch
from torch import nn

import castor
from castor._units import find_units
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from where import DEVICE

N_TOKENS, WIDTH = 64, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, *, scale):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return {"x": [x + scale * self.feed_forward(self.norm(x))]}


class TiedModel(nn.Module):
    """Its head is its embedding; blocks take keywords and return trees."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(N_TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, N_TOKENS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, scale=0.5)["x"][0]
        return self.head(x)


def loss_of(model, step):
    tokens = torch.randint(0, N_TOKENS, (4, 16), generator=torch.Generator().manual_seed(step)).to(DEVICE)
    logits = model(tokens).float().flatten(0, 1)
    return nn.functional.cross_entropy(logits, tokens.roll(-1, 1).flatten())


def train(plugin, optimizer_of, dtype, n_steps=4):
    """Losses and weights of the training."""
    torch.manual_seed(0)
    model = TiedModel().to(DEVICE, dtype)
    optimizer = optimizer_of(model.parameters())
    booster = Booster(plugin=plugin)
    boosted, boosted_optimizer, *_ = booster.boost(model, optimizer)
    assert boosted is model and boosted_optimizer is optimizer
    losses = []
    for step in range(n_steps):
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, dict(optimizer.castor_session.state_dict())


class Budgets(unittest.TestCase):
    def assert_same_bits(self, optimizer_of, dtype):
        losses, weights = train(TorchDDPPlugin(), optimizer_of, dtype)
        self.assertLess(losses[-1], losses[0])
        for device_budget in ("80KiB", "200KiB", "8MiB"):
            with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
                plugin = GeminiPlugin(
                    precision=None, device_budget=device_budget, host_budget="1MiB", nvme=[folder], chunk_bytes="16KiB"
                )
                moved_losses, moved_weights = train(plugin, optimizer_of, dtype)
            self.assertEqual(moved_losses, losses, device_budget)
            for name, weight in weights.items():
                self.assertTrue(torch.equal(moved_weights[name], weight), (device_budget, name))

    def test_adamw_in_bf16(self):
        self.assert_same_bits(lambda parameters: torch.optim.AdamW(parameters, lr=3e-3), torch.bfloat16)

    def test_adam_in_fp32(self):
        self.assert_same_bits(lambda parameters: torch.optim.Adam(parameters, lr=3e-3), torch.float32)

    def test_sgd_in_fp32(self):
        self.assert_same_bits(lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9), torch.float32)

    def test_fp32_follows_torch(self):
        """One process without Castor: the same rule in another order of operations, so equal but for rounding."""
        losses, _ = train(TorchDDPPlugin(), lambda parameters: torch.optim.AdamW(parameters, lr=3e-3), torch.float32)
        torch.manual_seed(0)
        model = TiedModel()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for step, loss_boosted in enumerate(losses):
            loss = loss_of(model, step)
            self.assertAlmostEqual(loss.item(), loss_boosted, delta=1e-4 * loss_boosted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class ZeroGrad(unittest.TestCase):
    def test_drops_the_gradients_since_the_last_step(self):
        for plugin in (TorchDDPPlugin(), GeminiPlugin(precision=None, device_budget="200KiB", host_budget="1MiB", chunk_bytes="16KiB")):
            torch.manual_seed(0)
            model = TiedModel()
            optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
            Booster(plugin=plugin).boost(model, optimizer)
            losses = []
            for step in range(4):
                loss_of(model, 100 + step).backward()
                optimizer.zero_grad()
                loss = loss_of(model, step)
                losses.append(loss.item())
                optimizer.backward(loss)
                optimizer.step()
            expected, _ = train(TorchDDPPlugin(), lambda parameters: torch.optim.AdamW(parameters, lr=3e-3), torch.float32)
            self.assertEqual(losses, expected)


class Units(unittest.TestCase):
    def test_are_the_innermost_repeated_blocks_and_what_is_outside(self):
        self.assertEqual(
            [unit.name for unit in find_units(TiedModel())], ["embedding", "blocks.0", "blocks.1", "blocks.2", "head"]
        )

    def test_hold_every_parameter(self):
        model = TiedModel()
        held = {parameter for unit in find_units(model) for parameter in unit.parameters}
        self.assertEqual(held, set(model.parameters()))


class Refusals(unittest.TestCase):
    def refusal(self, call):
        with self.assertRaises(castor.Error) as raised:
            call()
        return raised.exception

    def test_a_budget_that_is_too_small_says_how_much_would_do(self):
        model = TiedModel()
        optimizer = torch.optim.AdamW(model.parameters())
        plugin = GeminiPlugin(device_budget="16KiB")
        error = self.refusal(lambda: Booster(plugin=plugin).boost(model, optimizer))
        self.assertEqual((error.kind, error.tier, error.available), ("does_not_fit", "device", 16 << 10))
        self.assertGreater(error.needed, 16 << 10)

    def test_an_unknown_option_names_the_nearest(self):
        error = self.refusal(lambda: GeminiPlugin(chunk_byte="16KiB"))
        self.assertEqual(error.kind, "usage")
        self.assertIn("chunk_bytes", str(error))

    def test_an_unknown_optimizer_is_named(self):
        model = TiedModel()
        error = self.refusal(lambda: Booster().boost(model, torch.optim.Rprop(model.parameters())))
        self.assertIn("Rprop", str(error))

    def test_an_exception_in_a_block_leaves_the_model_usable(self):
        torch.manual_seed(0)
        model = TiedModel()
        optimizer = torch.optim.AdamW(model.parameters())
        Booster(plugin=GeminiPlugin(precision=None, device_budget="200KiB", chunk_bytes="16KiB")).boost(model, optimizer)
        with self.assertRaises(TypeError):
            model.blocks[1](torch.zeros(1, 2, WIDTH))  # no scale
        loss = loss_of(model, 0)
        optimizer.backward(loss)
        optimizer.step()
        self.assertLess(loss_of(model, 0).item(), loss.item())
