# SPDX-License-Identifier: Apache-2.0
"""Models built on the meta device: where they train, and with which values."""

import tempfile
import unittest

import torch
from torch import nn

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import VALUES, SameWeights, Twins, backward_of, made, plain
from where import DEVICE

try:
    import transformers
except ImportError:
    MODELS = {}
else:
    transformers.logging.set_verbosity_error()
    from models import MODELS


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
        with self.assertRaisesRegex(castor.Error, f"1 parameters or buffers were built on the meta device and have no values yet, {missing}"):
            loss_of(model, 0)
        with self.assertRaisesRegex(castor.Error, "have no values yet"):
            model.blocks[0](torch.randn(2, 4, model.embedding.embedding_dim), scale=0.5)
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

    def test_parameters_with_weak_references_and_hooks(self):
        """Those of nn.LSTM have weak references."""
        with torch.device("meta"):
            model = nn.ModuleList([nn.LSTM(8, 8), nn.Linear(8, 8)])
        seen = []
        model[1].weight.register_hook(lambda grad: seen.append("grad"))
        boost(model)
        expected = nn.ModuleList([nn.LSTM(8, 8), nn.Linear(8, 8)])
        model.load_state_dict(expected.state_dict())
        batch = torch.rand(3, 2, 8)
        self.assertTrue(torch.equal(model[0](batch)[0], expected[0](batch)[0]))
        model[1](batch).sum().backward()
        self.assertEqual(seen, ["grad"])


class WithBuffers(nn.Module):
    def __init__(self, persistent=True):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.arange(4.0) + 1, persistent)

    def forward(self, x):
        return self.linear(x) * self.scale


class BuffersOnMeta(SameWeights):
    def built(self, **options):
        with torch.device("meta"):
            return WithBuffers(**options)

    def test_saved_ones_wait_for_values(self):
        model, expected = self.built(), WithBuffers()
        boost(model)
        self.assertEqual(model.scale.device.type, "cpu")
        values = expected.state_dict()
        scale = values.pop("scale")
        model.load_state_dict(values, strict=False)
        with self.assertRaisesRegex(castor.Error, "1 parameters or buffers were built on the meta device .* scale among"):
            model(torch.ones(2, 4))
        model.load_state_dict({"scale": scale}, strict=False)
        self.assertTrue(torch.equal(model(torch.ones(2, 4)), expected(torch.ones(2, 4))))

    def test_saved_ones_can_be_written(self):
        for write in (lambda model: model.scale.fill_(2.0), lambda model: setattr(model, "scale", torch.full((4,), 2.0))):
            model, expected = self.built(), WithBuffers()
            boost(model)
            model.linear.load_state_dict(expected.linear.state_dict())
            write(model)
            self.assertTrue(torch.equal(model(torch.ones(2, 4)), expected.linear(torch.ones(2, 4)) * 2))

    def test_resuming_gives_them_no_values(self):
        model = WithBuffers()
        optimizer = boost(model)
        with tempfile.TemporaryDirectory() as folder:
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.castor_session.save(folder)
            other = self.built()
            boost(other).castor_resume(folder)
            with self.assertRaisesRegex(castor.Error, "1 parameters or buffers .* scale among"):
                other(torch.ones(2, 4))

    def test_that_no_file_has_are_refused(self):
        model = self.built(persistent=False)
        scale = model.scale
        with self.assertRaisesRegex(castor.Error, "buffer scale .* build the model in castor.lazy.LazyInitContext()"):
            boost(model)
        self.assertIs(model.scale, scale)
        self.assertTrue(model.linear.weight.is_meta)

    def test_generators_of_random_numbers_are_left_alone(self):
        class Drawing(WithBuffers):
            _initialize_weights = None  # as models of transformers

            def _init_weights(self, module):
                module.scale.copy_(torch.rand(4))

        with torch.device("meta"):
            model = Drawing(persistent=False)
        torch.manual_seed(3)
        boost(model)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(model.scale, torch.rand(4)))
        with torch.device("meta"):
            model = Drawing(persistent=False)
        state = torch.get_rng_state()
        boost(model)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))

    def test_an_error_leaves_them_on_meta(self):
        model = self.built()
        scale = model.scale
        with self.assertRaises(castor.Error):
            boost(model, device_budget="1")
        self.assertIs(model.scale, scale)
        boost(model)

    @unittest.skipUnless(MODELS, "transformers is not installed")
    def test_of_transformers_are_computed(self):
        """TRAPS 2-28: values and dtype are those of an eager model whatever the precision; nothing else is written."""
        n_buffers = 0
        for name, (make, loss) in MODELS.items():
            torch.manual_seed(0)
            expected = make()
            with torch.device("meta"):
                model = make()
            state = torch.get_rng_state()
            options = {"chunk_bytes": "4MiB"} if name == "ResNet" else {}
            boost(model, precision="bf16", device_budget=None, host_budget=None, **options)
            self.assertTrue(torch.equal(torch.get_rng_state(), state))
            with self.subTest(name), self.assertRaisesRegex(castor.Error, "have no values yet"):
                loss(model, 0)
            saved = expected.state_dict().keys()
            buffers = {key: buffer for key, buffer in expected.named_buffers() if key not in saved}
            self.assert_same({key: buffer for key, buffer in model.named_buffers() if key not in saved}, buffers)
            n_buffers += len(buffers)
            self.assertFalse(any(hasattr(parameter, "_is_hf_initialized") for parameter in model.parameters()))
            model.load_state_dict(expected.state_dict())
            loss(model, 0).backward()
        self.assertGreater(n_buffers, 10)

    @unittest.skipUnless(MODELS, "transformers is not installed")
    def test_beside_parameters_that_have_values(self):
        """load_state_dict(assign=True) leaves buffers that are not saved on the meta device."""
        for name in ("CLIP", "Swin", "Llama"):
            make, _ = MODELS[name]
            torch.manual_seed(0)
            expected = make()
            with torch.device("meta"):
                model = make()
            model.load_state_dict(expected.state_dict(), assign=True)
            boost(model, device_budget=None, host_budget=None)
            self.assert_same(model.state_dict(), expected.state_dict())
            self.assert_same(dict(model.named_buffers()), dict(expected.named_buffers()))


class InOneStorage(Twins):
    def test_parameters_side_by_side(self):
        """As those of nn.LSTM lie on a GPU."""

        def make():
            model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
            flat = torch.cat([torch.zeros(3), *(parameter.detach().flatten() for parameter in model.parameters())]).to(DEVICE)
            begin = 3
            for parameter in model.parameters():
                parameter.data = flat[begin : begin + parameter.numel()].view(parameter.shape)
                begin += parameter.numel()
            return model

        def loss(model, seed):
            return model(torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE)).square().sum()

        self.check(make, loss, chunk_bytes="1KiB")

    def test_those_of_a_recurrent_module(self):
        def loss(model, seed):
            return model(torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE))[0].square().sum()

        self.check(lambda: nn.LSTM(8, 8, 2, batch_first=True), loss, chunk_bytes="1KiB")


if __name__ == "__main__":
    unittest.main()
