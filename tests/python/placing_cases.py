# SPDX-License-Identifier: Apache-2.0
"""Models built on the meta device: where they train, and with which values."""

import tempfile
import unittest

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import VALUES, SameWeights, backward_of, made, plain


def on_meta(dtype=torch.bfloat16):
    with torch.device("meta"):
        return TiedModel().to(dtype)


def boost(model, **options):
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    options = {"precision": None, "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB", **options}
    Booster(device="cpu", plugin=GeminiPlugin(**options)).boost(model, optimizer)
    return optimizer


class OnMeta(SameWeights):
    def train(self, model, optimizer, twin, loop):
        for seed in range(3):
            self.assertEqual(backward_of(model, seed), backward_of(twin, seed))
            optimizer.step()
            loop.step()
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_trains_with_the_values_that_are_loaded(self):
        model = on_meta()
        parameters = dict(model.named_parameters())
        optimizer = boost(model)
        self.assertEqual({parameter.device.type for parameter in model.parameters()}, {"cpu"})
        for name, parameter in model.named_parameters():
            self.assertIs(parameter, parameters[name])
        model.load_state_dict(made().state_dict())
        self.train(model, optimizer, *plain())

    def test_masters_have_all_bits_of_what_is_loaded(self):
        values = made(torch.float32).state_dict()
        model = on_meta(torch.float32)
        boost(model, precision="bf16")
        model.load_state_dict(values)
        for name, parameter in model.named_parameters():
            self.assertEqual(parameter.dtype, torch.bfloat16)
            self.assertTrue(torch.equal(castor.master(parameter), values[name]), name)

    def test_values_that_are_missing_are_named(self):
        model = on_meta()
        boost(model)
        values = made().state_dict()
        missing = "embedding.weight"
        tied = {name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter is model.get_parameter(missing)}
        model.load_state_dict({name: value for name, value in values.items() if name not in tied}, strict=False)
        with self.assertRaisesRegex(castor.Error, f"1 parameters were built on the meta device and have no values yet, {missing}"):
            loss_of(model, 0)
        with castor.gathered(model.get_parameter(missing), write=True), torch.no_grad():
            model.get_parameter(missing).copy_(values[missing])
        loss_of(model, 0).backward()

    def test_resuming_gives_values(self):
        model = made()
        optimizer = boost(model)
        with tempfile.TemporaryDirectory() as folder:
            backward_of(model, 0)
            optimizer.step()
            optimizer.castor_session.save(folder)
            other = on_meta()
            optimizer = boost(other)
            optimizer.castor_resume(folder)
            self.assert_same(other.state_dict(), model.state_dict())
            loss_of(other, 0)

    def test_a_refusal_leaves_the_model_on_meta(self):
        model = on_meta()
        parameters = list(model.parameters())
        with self.assertRaises(castor.Error):
            boost(model, device_budget="1KiB")
        for parameter, before in zip(model.parameters(), parameters):
            self.assertIs(parameter, before)
            self.assertTrue(parameter.is_meta)
        boost(model)


if __name__ == "__main__":
    unittest.main()
