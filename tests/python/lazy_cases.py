# SPDX-License-Identifier: Apache-2.0
"""Models built without memory in castor.lazy: the bits of an eager build, whatever initialises them."""

import copy
import unittest
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

import castor
from boost_cases import TiedModel
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from castor.lazy import LazyInitContext
from castor.utils.model.colo_init_context import ColoInitContext
from castor.zero import zero_model_wrapper, zero_optim_wrapper
from pairs import VALUES, SameWeights, backward_of
from plain_loop import PlainLoop

try:
    import transformers
except ImportError:
    MODELS = {}
else:
    transformers.logging.set_verbosity_error()
    from models import MODELS

OPTIONS = {"precision": None, "device_budget": "200KiB", "host_budget": "4MiB", "chunk_bytes": "16KiB"}
LARGE = {"precision": None, "device_budget": "16MiB", "host_budget": "256MiB", "chunk_bytes": "4MiB"}


def eager(make, seed=0):
    torch.manual_seed(seed)
    return make()


def lazy(make, seed=0):
    torch.manual_seed(seed)
    with LazyInitContext():
        return make()


def boost(model, options=OPTIONS):
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    Booster(device="cpu", plugin=GeminiPlugin(**options)).boost(model, optimizer)
    return optimizer


class Lazy(SameWeights):
    def assert_same_tensors(self, model, expected):
        """Parameters and buffers, those that are not saved too."""
        for mine, its in ((model.named_parameters, expected.named_parameters), (model.named_buffers, expected.named_buffers)):
            self.assert_same(dict(mine(remove_duplicate=False)), dict(its(remove_duplicate=False)))

    def assert_on_meta(self, model):
        for name, parameter in model.named_parameters():
            self.assertTrue(parameter.is_meta, name)
            self.assertIsInstance(parameter, nn.Parameter)
        for name, buffer in model.named_buffers():
            self.assertFalse(buffer.is_meta, name)

    def assert_as_eager(self, make):
        expected = eager(make)
        state = torch.get_rng_state()
        model = lazy(make)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assert_on_meta(model)
        LazyInitContext.materialize(model)
        self.assert_same_tensors(model, expected)
        return model, expected


class Models(Lazy):
    def check(self, name):
        """Strides too: a model may be in channels_last."""
        make, loss = MODELS[name]
        expected = eager(make)
        state = torch.get_rng_state()
        model = lazy(make)
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assert_on_meta(model)
        strides = {key: parameter.stride() for key, parameter in model.named_parameters()}
        self.assertEqual(strides, {key: parameter.stride() for key, parameter in expected.named_parameters()})
        torch.manual_seed(7)
        state = torch.get_rng_state()
        boost(model, LARGE if name == "ResNet" else {**OPTIONS, "device_budget": "2MiB"})
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assert_same(model.state_dict(), expected.state_dict())
        self.assert_same(dict(model.named_buffers()), dict(expected.named_buffers()))
        self.assertEqual(loss(model.eval(), 0).item(), loss(expected.eval(), 0).item())


def add_test(name):
    label = name.replace(" ", "_").replace(".", "_").replace("-", "_").lower()
    setattr(Models, f"test_{label}", lambda self: self.check(name))


for model_name in MODELS:
    add_test(model_name)


class Training(Lazy):
    def check(self, make, loss, dtype, options):
        expected = eager(lambda: make().to(dtype))
        model = lazy(make).to(dtype)
        optimizer = boost(model, options)
        loop = PlainLoop(expected, "adamw", [{"params": list(expected.parameters()), **VALUES}])
        for seed in range(2):
            for trained in (model, expected):
                loss(trained, seed).backward()
            optimizer.step()
            loop.step()
        self.assert_same(model.state_dict(), expected.state_dict())

    def test_follows_the_plain_loop(self):
        for name in ("Qwen2", "LSTM", "nn.Transformer"):
            if name in MODELS:
                for dtype in (torch.float32, torch.bfloat16):
                    with self.subTest(name, dtype=dtype):
                        self.check(*MODELS[name], dtype, {**OPTIONS, "device_budget": "1MiB"})

    def test_masters_have_all_bits(self):
        expected = eager(TiedModel)
        model = lazy(TiedModel)
        boost(model, {**OPTIONS, "precision": "bf16"})
        for name, parameter in model.named_parameters():
            self.assertEqual(parameter.dtype, torch.bfloat16)
            self.assertTrue(torch.equal(castor.master(parameter), expected.get_parameter(name)), name)
        self.assertIs(model.head.weight, model.embedding.weight)

    def test_under_the_older_names(self):
        torch.manual_seed(0)
        with ColoInitContext(device="cpu"):
            model = TiedModel()
        self.assert_on_meta(model)
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        zero_optim_wrapper(zero_model_wrapper(model, 3, {"device": "cpu", "mixed_precision": "fp32"}), optimizer)
        self.assert_same(model.state_dict(), eager(TiedModel).state_dict())
        backward_of(model, 0)
        optimizer.step()

    def test_without_an_optimizer(self):
        model = lazy(TiedModel)
        Booster(device="cpu").boost(model)
        self.assert_same(model.state_dict(), eager(TiedModel).state_dict())


class Every(nn.Module):
    """What initialises parameters, in torch and in programs."""

    IN_TORCH = ("uniform_", "normal_", "ones_", "zeros_", "eye_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_")
    IN_TORCH += ("kaiming_normal_", "trunc_normal_", "orthogonal_")

    def __init__(self):
        super().__init__()
        for name in self.IN_TORCH:
            self.new(name, torch.empty(24, 16))
            getattr(nn.init, name)(getattr(self, name))
        self.new("trunc_of_1", torch.empty(64, 64))
        nn.init.trunc_normal_(self.trunc_of_1, std=1.0, a=-1.0, b=0.5)  # rejects many
        self.new("dirac", nn.init.dirac_(torch.empty(4, 4, 3)))
        self.new("sparse", nn.init.sparse_(torch.empty(24, 16), 0.5))
        self.new("scaled", torch.randn(5, 7) * 0.02)
        self.new("halved", torch.rand(6).to(torch.bfloat16) / 3)
        self.new("constant", torch.tensor([2.5, -1.0]))
        self.new("of_numpy", torch.from_numpy(np.arange(6.0)).float())
        self.new("mean_and_std", torch.normal(torch.arange(8.0), torch.full((8,), 0.5)))
        self.new("kept", torch.bernoulli(torch.full((40,), 0.3)))
        self.new("order", torch.randperm(17).float())
        self.new("some", torch.multinomial(torch.arange(1.0, 9.0), 3).float())

    def new(self, name, values):
        self.register_parameter(name, nn.Parameter(values))


class Sliced(nn.Module):
    """Writes to parts of parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8, padding_idx=3)
        self.projection = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)
        with torch.no_grad():
            self.embedding.weight[3].fill_(0.25)
            for number, part in enumerate(self.projection.weight.chunk(3)):
                nn.init.normal_(part, std=0.1 * (number + 1))
            self.projection.weight.t()[2:4].mul_(2.0)
            self.projection.bias[torch.tensor([1, 5])] = 7.0
            self.projection.bias[self.projection.bias > 0.1] = -1.0
            self.norm.weight.data = torch.full((8,), 1.5).cumsum(0)
            nn.init.normal_(self.norm.bias.data.narrow(0, 2, 3))
        self.doubled = nn.Parameter(self.projection.weight.detach().clone().repeat(2, 1))
        given = torch.tensor([3.0, 1.0, 2.0])
        self.given = nn.Parameter(torch.empty(3))
        self.given.data.copy_(given)
        given.zero_()
        self.generated = nn.Parameter(torch.empty(30))
        self.generated.data.normal_(generator=torch.Generator().manual_seed(5))


class Reading(nn.Module):
    """Looks at values while it is built."""

    def __init__(self):
        super().__init__()
        rates = [each.item() for each in torch.linspace(0, 0.3, 4)]
        self.rates = rates + torch.arange(3).tolist() + [float(torch.tensor(0.5).numpy())]
        first = nn.Linear(6, 6)
        if first.weight.sum() > 0 or not torch.equal(first.weight, first.weight.clone()):
            nn.init.zeros_(first.weight)
        self.first = first
        self.scale = nn.Parameter(first.weight / first.weight.abs().max().item())
        self.by_numpy = nn.Parameter(torch.from_numpy(np.sort(self.scale.detach().numpy().ravel())))
        self.is_as_asked = first.weight.device == torch.device("cpu") and not first.weight.is_meta
        self.moved = nn.Linear(3, 3).to("cpu", torch.float64)


class Buffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        frequencies = 1.0 / (10000.0 ** (torch.arange(0, 8, 2, dtype=torch.int64).float() / 8))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("table", torch.outer(torch.arange(5.0), self.frequencies).cos())
        self.register_buffer("mask", torch.tril(torch.ones(6, 6, dtype=torch.bool)))
        self.register_buffer("noise", torch.randn(3))
        self.original = self.frequencies
        self.pairs = {"a": torch.zeros(2), "b": [1, 2]}
        self.norm = nn.BatchNorm1d(4)


class Constructors(Lazy):
    def test_every_way_of_initialising(self):
        self.assert_as_eager(Every)

    def test_parts_of_parameters(self):
        self.assert_as_eager(Sliced)

    def test_values_that_are_asked_for(self):
        model, expected = self.assert_as_eager(Reading)
        self.assertEqual(model.rates, expected.rates)
        self.assertTrue(model.is_as_asked)

    def test_buffers(self):
        model = lazy(Buffers)
        self.assertIs(model.original, model.frequencies)
        self.assertTrue(torch.equal(model.pairs["a"], torch.zeros(2)))
        self.assert_as_eager(Buffers)

    def test_tensors_in_containers(self):
        """One within the other, and in dataclasses."""

        def make():
            layer = nn.Linear(4, 4)
            layer.cache = {"a": [torch.ones(4), (torch.arange(3), {"b": torch.zeros(2)})], "n": [1, 2]}
            layer.settings = SimpleNamespace(scale=torch.full((2,), 0.5), name="x")
            return layer

        model, _ = self.assert_as_eager(make)
        self.assertEqual(model.cache["a"][0].tolist(), [1, 1, 1, 1])
        self.assertEqual(model.cache["a"][1][0].tolist(), [0, 1, 2])
        self.assertEqual(model.cache["a"][1][1]["b"].tolist(), [0, 0])
        self.assertEqual(model.cache["n"], [1, 2])
        self.assertEqual(model.settings.scale.tolist(), [0.5, 0.5])

    def test_copies_and_ties(self):
        def make():
            layer = nn.TransformerEncoderLayer(8, 2, 16)
            encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            model = nn.ModuleList([encoder, nn.Linear(8, 8), nn.Linear(8, 8)])
            model[2].weight = model[1].weight
            return model

        model, _ = self.assert_as_eager(make)
        self.assertIs(model[1].weight, model[2].weight)

    def test_parametrisations(self):
        def make():
            weighted = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
            orthogonal = nn.utils.parametrizations.orthogonal(nn.Linear(6, 6))
            return nn.Sequential(weighted, orthogonal)

        self.assert_as_eager(make)

    def test_the_default_dtype_and_seed_of_the_build(self):
        def make():
            torch.manual_seed(11)
            torch.set_default_dtype(torch.bfloat16)
            try:
                return nn.ParameterDict({"a": torch.randn(5), "b": torch.arange(300) / 7})
            finally:
                torch.set_default_dtype(torch.float32)

        model, _ = self.assert_as_eager(make)
        self.assertEqual(model["b"].dtype, torch.bfloat16)

    def test_given_weights(self):
        weights = torch.rand(5, 3)
        model, _ = self.assert_as_eager(lambda: nn.Embedding.from_pretrained(weights, freeze=False))
        self.assertTrue(model.weight.requires_grad)

    def test_given_weights_that_are_written(self):
        weights = torch.rand(5, 3)
        model = lazy(lambda: nn.Embedding.from_pretrained(weights.clone(), freeze=False))
        model.weight.data.mul_(2)
        for _ in range(2):
            self.assertEqual(model.weight.data.tolist(), (weights * 2).tolist())
        self.assertTrue(torch.equal(LazyInitContext.materialize(model).weight, weights * 2))


class After(Lazy):
    """What a program does to the model between the context and boost."""

    def change(self, model):
        model.apply(lambda module: nn.init.trunc_normal_(module.weight) if isinstance(module, nn.Linear) else None)
        model.embedding.weight.data.mul_(2)
        model.blocks[0].norm.weight.data[3:5] = 0.5
        model.blocks[2].norm.weight.data.cpu().mul_(3)  # no copy
        with torch.no_grad():
            model.blocks[1].norm.bias.copy_(torch.arange(32.0))
        return model.to("cpu").to(torch.bfloat16)

    def test_changes_count(self):
        expected = self.change(eager(TiedModel))
        state = torch.get_rng_state()
        model = self.change(lazy(TiedModel))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assert_on_meta(model)
        copied = LazyInitContext.materialize(copy.deepcopy(model))
        self.assert_same_tensors(copied, expected)
        boost(model)
        self.assert_same(model.state_dict(), expected.state_dict())
        self.assertEqual({type(parameter) for parameter in model.parameters()}, {nn.Parameter})

    def test_values_can_be_read(self):
        model, expected = lazy(TiedModel), eager(TiedModel)
        weight, its = model.head.weight, expected.head.weight
        self.assertEqual(weight.norm().item(), its.norm().item())
        self.assertEqual(repr(weight), repr(its))
        self.assertEqual(weight.data.tolist(), its.data.tolist())
        values = weight.detach().numpy()
        self.assertTrue(np.array_equal(values, its.detach().numpy()))
        with self.assertRaisesRegex(ValueError, "read-only"):
            values[0] = 0

    def test_generators_go_on_as_after_an_eager_build(self):
        eager(TiedModel)
        expected = [torch.rand(3), torch.rand(3)]
        model = lazy(TiedModel)
        first = torch.rand(3)
        boost(model)
        self.assertTrue(torch.equal(first, expected[0]))
        self.assertTrue(torch.equal(torch.rand(3), expected[1]))

    def test_several_contexts(self):
        torch.manual_seed(0)
        expected = [TiedModel(), TiedModel()]
        torch.manual_seed(0)
        models = []
        for _ in range(2):
            with LazyInitContext():
                models.append(TiedModel())
        for model, its in zip(reversed(models), reversed(expected)):
            self.assert_same_tensors(LazyInitContext.materialize(model), its)


class Refusals(Lazy):
    def test_an_error_of_boost_leaves_the_model_lazy(self):
        model = lazy(TiedModel)
        before = list(model.parameters())
        with self.assertRaises(castor.Error):
            boost(model, {**OPTIONS, "device_budget": "1KiB"})
        for parameter, its in zip(model.parameters(), before, strict=True):
            self.assertIs(parameter, its)
        self.assert_on_meta(model)
        self.assertEqual(model.head.weight.norm().item(), eager(TiedModel).head.weight.norm().item())
        boost(model)
        self.assert_same(model.state_dict(), eager(TiedModel).state_dict())

    def test_an_exception_ends_the_context(self):
        with self.assertRaises(ZeroDivisionError), LazyInitContext():
            nn.Linear(3, 3 // 0)
        self.assertFalse(nn.Linear(3, 3).weight.is_meta)
        self.assert_on_meta(lazy(TiedModel))

    def test_within_the_context(self):
        with LazyInitContext():
            model = nn.Linear(3, 3)
            with self.assertRaisesRegex(castor.Error, "open already"), LazyInitContext():
                pass
            for call in (lambda: boost(model), lambda: LazyInitContext.materialize(model)):
                with self.assertRaisesRegex(castor.Error, "after the block"):
                    call()
        boost(model)

    def test_tensors_that_have_no_values(self):
        outside = torch.empty(3, device="meta")
        with self.assertRaisesRegex(castor.Error, "made outside of castor.lazy"), LazyInitContext():
            nn.Linear(3, 3).weight.data.copy_(outside)


if __name__ == "__main__":
    unittest.main()
