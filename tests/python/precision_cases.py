# SPDX-License-Identifier: Apache-2.0
"""The dtype that a plugin gives a model, and loss scaling."""

import unittest

import torch
from torch import nn

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import SameWeights
from plain_loop import PlainLoop

VALUES = {"lr": 1e-2, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01}
SMALL = {"device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB"}


def made(dtype=torch.float32):
    torch.manual_seed(0)
    return TiedModel().to(dtype)


def boosted(model, **options):
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    Booster(plugin=GeminiPlugin(**SMALL, **options)).boost(model, optimizer)
    return optimizer


def plain(model, dtype):
    return PlainLoop(model, "adamw", [{"params": list(model.parameters()), **VALUES}], dtype)


class Normalised(nn.Module):
    """Takes a floating-point input, and has a buffer that follows the dtype and one that does not."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 4)
        self.register_buffer("frequencies", torch.arange(8) / 7, persistent=False)

    def forward(self, x):
        return self.linear(self.norm(x)) * self.frequencies[:4].to(x.dtype)


class Precision(SameWeights):
    def test_masters_begin_with_the_values_before_the_cast(self):
        for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
            model, twin = made(), made()
            parameters = list(model.parameters())
            model.blocks[0].norm.weight.requires_grad_(False)
            twin.blocks[0].norm.weight.requires_grad_(False)
            optimizer, loop = boosted(model, precision=precision), plain(twin, dtype)
            self.assertTrue(all(a is b for a, b in zip(model.parameters(), parameters)))
            self.assertEqual({p.dtype for p in parameters}, {dtype})
            for seed in range(3):
                for module, step in ((model, optimizer.step), (twin, loop.step)):
                    loss_of(module, seed).backward()
                    step()
            self.assert_same(model.state_dict(), twin.state_dict())

    def test_inputs_are_cast_and_results_if_asked(self):
        torch.manual_seed(0)
        model = Normalised()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        Booster(plugin=GeminiPlugin(force_outputs_fp32=True)).boost(model, optimizer)
        result = model(torch.randn(6, 8))
        self.assertEqual(result.dtype, torch.float32)
        self.assertEqual(model.norm.running_mean.dtype, torch.bfloat16)
        self.assertEqual(model.frequencies.dtype, torch.float32)
        result.sum().backward()
        optimizer.step()
        self.assertEqual(model.state_dict()["linear.weight"].dtype, torch.bfloat16)

    def test_an_error_leaves_the_model_as_it_was(self):
        model, twin = made(), made()
        with self.assertRaises(castor.Error):
            Booster(plugin=GeminiPlugin(device_budget="1KiB")).boost(model, torch.optim.AdamW(model.parameters()))
        self.assert_same(model.state_dict(), twin.state_dict())
        self.assertEqual(loss_of(model, 0).item(), loss_of(twin, 0).item())

    def test_an_unknown_one_is_refused(self):
        model = made()
        with self.assertRaisesRegex(castor.Error, "precision takes one of fp32, bf16, fp16, not 'bf61'"):
            boosted(model, precision="bf61")


class LossScale(SameWeights):
    def test_is_that_of_the_plain_loop_through_overflows_and_growth(self):
        scaler = {"initial_scale": 2.0**24, "growth_interval": 2, "hysteresis": 1, "max_norm": 0.3}
        model, twin = made(), made()
        optimizer, loop = boosted(model, precision="fp16", **scaler), plain(twin, torch.float16)
        scale, n_good, n_skipped = 2.0**24, 0, 0
        for seed in range(24):
            self.assertEqual(optimizer.castor_session.loss_scale(), scale)
            optimizer.backward(loss_of(model, seed))
            optimizer.step()
            loss = loss_of(twin, seed)
            loss.backward(torch.full_like(loss, scale))
            if loop.step(0.3, scale):
                n_good += 1
                if n_good == 2:
                    scale, n_good = 2 * scale, 0
            else:
                scale, n_good, n_skipped = scale / 2, 0, n_skipped + 1
        self.assertGreater(n_skipped, 2)
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_gradients_are_read_and_replaced_as_those_of_the_loss(self):
        model, twin = made(), made()
        optimizer, loop = boosted(model, precision="fp16", initial_scale=1024.0), plain(twin, torch.float16)
        self.assertEqual(optimizer.loss_scale, 1024.0)
        optimizer.backward(loss_of(model, 0))
        loss = loss_of(twin, 0)
        loss.backward(torch.full_like(loss, 1024.0))
        for mine, expected in zip(model.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(castor.grad(mine).flatten() * 1024, loop.sums[expected]))
        castor.set_grad(model.head.weight, torch.ones_like(model.head.weight, dtype=torch.float32))
        self.assertTrue(torch.equal(castor.grad(model.head.weight), torch.ones_like(model.head.weight, dtype=torch.float32)))
        loop.sums[twin.head.weight] = torch.full_like(loop.sums[twin.head.weight], 1024.0)
        optimizer.step()
        loop.step(0, 1024.0)
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_a_loss_that_was_not_scaled_is_refused(self):
        model = made()
        optimizer = boosted(model, precision="fp16")
        with self.assertRaisesRegex(castor.Error, r"a loss is one number, and this one has sizes \(2,\)"):
            optimizer.backward(loss_of(model, 0).expand(2))
        loss = loss_of(model, 0)
        with self.assertRaisesRegex(castor.Error, r"call optimizer.backward\(loss\)"):
            loss.backward()
        optimizer.backward(loss_of(model, 0))
        optimizer.step()
