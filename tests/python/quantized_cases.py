# SPDX-License-Identifier: Apache-2.0
"""Adapters beside frozen weights that are bytes of bitsandbytes or torchao: those move as they are, with their scales."""

import copy
import tempfile
import unittest
import warnings
from unittest import mock

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from models import causal  # before peft, whose import needs what torchvision lacks
from pairs import VALUES, in_the_smallest_budgets
from plain_loop import PlainLoop
from where import DEVICE, small_budget

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import peft
    except ImportError:
        peft = None
    try:
        import bitsandbytes.nn as bnb
    except ImportError:
        bnb = None
    try:
        import torchao.quantization as torchao
    except ImportError:
        torchao = None

SIZES = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 3, "vocab_size": 96}
MAKE, LOSS = causal("Qwen2Config", **SIZES)
SMALL = small_budget("200KiB")


def with_linear(model, make):
    """The model with `make(linear)` in place of each linear layer of its blocks."""
    for module in model.model.layers.modules():
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, make(child))
    return model


def of_4_bit(**options):
    def make(linear):
        other = bnb.Linear4bit(
            linear.in_features, linear.out_features, linear.bias is not None, compute_dtype=torch.float32, **options
        )
        other.weight = type(other.weight)(linear.weight.data, requires_grad=False, quant_type=other.weight.quant_type, **options)
        other.bias = linear.bias
        return other

    return lambda model: with_linear(model, make)


def of_8_bit(model):
    def make(linear):
        other = bnb.Linear8bitLt(linear.in_features, linear.out_features, linear.bias is not None, has_fp16_weights=False)
        other.weight = bnb.Int8Params(linear.weight.data, requires_grad=False)
        other.bias = linear.bias
        return other

    return with_linear(model, make)


def by_torchao(config):
    def quantize(model):
        torchao.quantize_(model.model.layers, config())
        return model

    return quantize


KINDS = {}
if bnb:
    KINDS |= {"4 bit": of_4_bit(compress_statistics=False), "4 bit, scales in bytes": of_4_bit(compress_statistics=True), "8 bit": of_8_bit}
if torchao:
    KINDS["torchao, 8 bit"] = by_torchao(lambda: torchao.Int8WeightOnlyConfig())


def adapted(quantize):
    torch.manual_seed(0)
    model = quantize(MAKE().requires_grad_(False)).to(DEVICE).train()
    config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peft.get_peft_model(model, config)


def values_in(tensor):
    """The tensors with memory that it consists of, and what bitsandbytes keeps beside it, by name."""
    if hasattr(tensor, "__tensor_flatten__"):
        return {name: getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]}
    beside = {name: getattr(getattr(tensor, "quant_state", None), name, None) for name in ("absmax", "code", "offset")}
    return {"": tensor} | {name: value for name, value in beside.items() if value is not None}


def train(model, step, n_steps=3):
    losses = []
    for seed in range(n_steps):
        loss = LOSS(model, seed)
        loss.backward()
        losses.append(loss.item())
        step()
    return losses


def plain_twin(quantize):
    model = adapted(quantize)
    return model, PlainLoop(model, "adamw", [{**VALUES, "params": list(model.parameters())}])


def boosted_twin(quantize, **budgets):
    model = adapted(quantize)
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)  # of frozen ones too, as many scripts have it
    Booster(plugin=GeminiPlugin(precision=None, chunk_bytes="8KiB", **budgets)).boost(model, optimizer)
    return model, optimizer


@unittest.skipUnless(KINDS and peft, "neither bitsandbytes nor torchao is installed, or peft is not")
class FrozenBytes(unittest.TestCase):
    def assert_same(self, weights, expected):
        self.assertEqual(weights.keys(), expected.keys())
        for name, value in expected.items():
            for part, tensor in values_in(value).items():
                self.assertTrue(torch.equal(values_in(weights[name])[part].to(tensor.device), tensor), name + part)

    def test_train_adapters_with_the_bits_of_a_plain_loop(self):
        for kind, quantize in KINDS.items():
            with self.subTest(kind):
                twin, loop = plain_twin(quantize)
                before = {name: value.clone() for name, value in twin.state_dict().items()}
                losses = train(twin, loop.step)
                expected = twin.state_dict()
                self.assert_same({n: v for n, v in expected.items() if "lora" not in n}, {n: v for n, v in before.items() if "lora" not in n})

                def run(**budgets):
                    model, optimizer = boosted_twin(quantize, **budgets)
                    self.assertEqual(train(model, optimizer.step), losses)
                    self.assert_same(model.state_dict(), expected)
                    return castor.stats(model)

                stats = in_the_smallest_budgets(run, "device", "host")
                frozen = sum(v.nbytes for p in twin.parameters() if not p.requires_grad for v in values_in(p).values())
                if DEVICE.type == "cpu":  # a GPU's budget holds segments of torch's allocator, and so all of this model
                    self.assertLess(stats["peak_bytes"]["device"], frozen)
                with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
                    in_the_smallest_budgets(run, "device", "host", nvme=[folder])
                run()

    def test_are_not_estimated(self):
        batch = {"input_ids": torch.empty(2, 8, dtype=torch.long)}
        for kind, quantize in KINDS.items():
            with self.subTest(kind), self.assertRaisesRegex(castor.Error, "is quantized, .* estimate the model before it is"):
                castor.estimate(adapted(quantize), GeminiPlugin(device_budget="8MiB"), batch)

    def test_are_gathered_saved_and_copied(self):
        for kind, quantize in KINDS.items():
            with self.subTest(kind):
                twin, loop = plain_twin(quantize)
                model, optimizer = boosted_twin(quantize, device_budget=SMALL)
                name, frozen = next((n, p) for n, p in model.named_parameters() if n.endswith("q_proj.base_layer.weight"))
                with castor.gathered(frozen):
                    self.assert_same({name: frozen}, {name: twin.state_dict()[name]})
                for _ in range(2):  # before a step and after it
                    copied = copy.deepcopy(model)
                    self.assert_same(copied.state_dict(), twin.state_dict())
                    self.assertEqual([type(p) for p in copied.parameters()], [type(p) for p in twin.parameters()])
                    self.assertEqual(LOSS(copied, 5).item(), LOSS(twin, 5).item())
                    self.assertEqual(train(model, optimizer.step, n_steps=1), train(twin, loop.step, n_steps=1))

    def test_of_another_device_and_where_placing_fails(self):
        """cpu:0 is another device than cpu to torch, with the same memory."""
        for kind, quantize in KINDS.items():
            with self.subTest(kind):
                twin, loop = plain_twin(quantize)
                model = adapted(quantize)
                optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
                booster = Booster(f"{DEVICE.type}:0", plugin=GeminiPlugin(precision="bf16", device_budget=small_budget("400KiB")))
                with mock.patch("castor._quantized.Beside.move", side_effect=MemoryError), self.assertRaises(MemoryError):
                    booster.boost(model, optimizer)
                self.assert_same(model.state_dict(), twin.state_dict())
                self.assertEqual(LOSS(model, 0).item(), LOSS(twin, 0).item())
                booster = Booster(f"{DEVICE.type}:0", plugin=GeminiPlugin(precision=None, device_budget=small_budget("400KiB")))
                booster.boost(model, optimizer)
                self.assertEqual(train(model, optimizer.step), train(twin, loop.step))
                self.assert_same(model.state_dict(), twin.state_dict())

    def test_runs_and_weights_go_on_in_other_models(self):
        for kind, quantize in KINDS.items():
            with self.subTest(kind), tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
                twin, loop = plain_twin(quantize)
                model, optimizer = boosted_twin(quantize, device_budget=SMALL)
                self.assertEqual(train(model, optimizer.step), train(twin, loop.step))
                booster = Booster()
                booster.save_optimizer(optimizer, f"{folder}/run")
                booster.save_model(model, f"{folder}/weights.pt", use_safetensors=False)
                again, step = boosted_twin(quantize)
                booster.load_optimizer(step, f"{folder}/run")
                self.assert_same(again.state_dict(), twin.state_dict())
                another, _ = boosted_twin(quantize)
                booster.load_model(another, f"{folder}/weights.pt")
                self.assertEqual(LOSS(another, 4).item(), LOSS(twin, 4).item())

    @unittest.skipUnless(bnb, "bitsandbytes is not installed")
    def test_a_run_beside_other_scales_is_refused(self):
        for kind in [kind for kind in KINDS if "torchao" not in kind]:
            with self.subTest(kind), tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
                model, optimizer = boosted_twin(KINDS[kind], device_budget=SMALL)
                train(model, optimizer.step, n_steps=1)
                Booster().save_optimizer(optimizer, folder)
                with mock.patch.object(torch, "manual_seed", lambda seed, real=torch.manual_seed: real(seed + 1)):
                    other, step = boosted_twin(KINDS[kind])
                before = other.state_dict()
                with self.assertRaisesRegex(castor.Error, "beside weights of other scales"):
                    Booster().load_optimizer(step, folder)
                self.assert_same(other.state_dict(), before)

    @unittest.skipUnless(bnb, "bitsandbytes is not installed")
    def test_biases_have_the_dtype_that_their_layer_computes_in(self):
        def quantize(model):
            model = KINDS["4 bit"](model)
            for module in model.modules():
                if isinstance(module, bnb.Linear4bit):
                    module.compute_dtype = torch.bfloat16
            return model

        twin, loop = plain_twin(quantize)
        model, optimizer = boosted_twin(quantize, device_budget=SMALL)
        self.assertEqual(train(model, optimizer.step), train(twin, loop.step))
        self.assertIn(torch.bfloat16, {parameter.dtype for name, parameter in model.named_parameters() if name.endswith("bias")})

    @unittest.skipUnless(bnb, "bitsandbytes is not installed")
    def test_that_are_no_bytes_yet_are_refused(self):
        for kind in [kind for kind in KINDS if "torchao" not in kind]:
            with self.subTest(kind), self.assertRaisesRegex(castor.Error, "was not quantized yet"):
                model = KINDS[kind](MAKE().requires_grad_(False))
                Booster(plugin=GeminiPlugin(device_budget=small_budget("1MiB"))).boost(model)

    @unittest.skipUnless(torchao, "torchao is not installed")
    def test_of_a_class_are_taken_from_a_state_dict_as_they_are(self):
        quantize = KINDS["torchao, 8 bit"]
        model, _ = boosted_twin(quantize, device_budget=SMALL)
        torch.manual_seed(1)
        other = adapted(quantize)
        with torch.no_grad():
            for parameter in other.parameters():
                for tensor in values_in(parameter).values():
                    tensor.copy_(tensor.flip(0))
        model.load_state_dict(other.state_dict())
        self.assert_same(model.state_dict(), other.state_dict())
        in_another_way = by_torchao(lambda: torchao.Int8WeightOnlyConfig(granularity=torchao.PerTensor()))
        for values, why in ((adapted(in_another_way), "another way"), (adapted(lambda model: model), "of Int8Tensor")):
            with self.assertRaisesRegex(RuntimeError, why):
                model.load_state_dict(values.state_dict())
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            with self.assertRaisesRegex(castor.Error, "safetensors has plain tensors alone"):
                Booster().save_model(model, f"{folder}/weights.safetensors")
            Booster().save_model(adapted(lambda model: model), f"{folder}/plain.pt", use_safetensors=False)
            with self.assertRaisesRegex(castor.Error, "is of class Tensor, and the parameter of Int8Tensor"):
                Booster().load_model(model, f"{folder}/plain.pt")
        frozen = next(parameter for name, parameter in model.named_parameters() if name.endswith("up_proj.base_layer.weight"))
        with self.assertRaisesRegex(castor.Error, "neither gradient nor master"):
            castor.master(frozen)

    @unittest.skipUnless(torchao, "torchao is not installed")
    def test_of_a_class_that_are_to_learn_are_refused(self):
        model = KINDS["torchao, 8 bit"](MAKE().requires_grad_(False))
        weight = model.model.layers[0].mlp.up_proj.weight
        model.model.layers[0].mlp.up_proj.weight = nn.Parameter(weight.detach(), requires_grad=True)
        with self.assertRaisesRegex(castor.Error, "is of class Int8Tensor and requires a gradient; freeze it"):
            Booster(plugin=GeminiPlugin(device_budget=small_budget("1MiB"))).boost(model, torch.optim.AdamW(model.parameters()))


if __name__ == "__main__":
    unittest.main()
