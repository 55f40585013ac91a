# SPDX-License-Identifier: Apache-2.0
"""Adapters of peft on a frozen base: the bits of a plain loop, a base that is read alone, and what is saved and merged."""

import itertools
import tempfile
import unittest
import warnings
import warnings

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from castor.lazy import LazyInitContext
from models import causal, tokens  # before peft, whose import needs what torchvision lacks
from pairs import VALUES, SameWeights, in_the_smallest_budgets
from plain_loop import PlainLoop
from where import DEVICE, small_budget

try:
    import peft
except ImportError:
    peft = None

KINDS = {"LoRA": {}, "DoRA": {"use_dora": True}, "dropout": {"lora_dropout": 0.1}}
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "vocab_size": 128}
MAKE, LOSS = causal("Qwen2Config", **SIZES)
N_STEPS = 3


def base_model(dtype=torch.float32):
    torch.manual_seed(0)
    return MAKE().to(DEVICE, dtype).train()


def config(**options):
    options = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "init_lora_weights": False, **options}
    return peft.LoraConfig(task_type="CAUSAL_LM", **options)


def with_lora(dtype=torch.float32, recompute=None, **options):
    model = Booster(plugin=GeminiPlugin()).enable_lora(base_model(dtype), lora_config=config(**options))
    if recompute is not None:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": recompute})
        model.enable_input_require_grads()
    return model


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def train(model, step, steps=range(N_STEPS)):
    losses = []
    for n in steps:
        torch.manual_seed(n)  # of dropout
        loss = LOSS(model, n)
        loss.backward()
        losses.append(loss.item())
        step()
    return losses


def boosted(model, **options):
    optimizer = torch.optim.AdamW(trained(model), **VALUES)
    options = {"precision": None, "chunk_bytes": "32KiB", **options}
    Booster(plugin=GeminiPlugin(**options)).boost(model, optimizer)
    return optimizer


def frozen_weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters() if not parameter.requires_grad}


def bytes_of(parameters):
    return sum(parameter.nbytes for parameter in parameters)


@unittest.skipUnless(peft, "peft is not installed")
class Lora(SameWeights):
    def setUp(self):
        warned = warnings.catch_warnings()
        warned.__enter__()
        self.addCleanup(warned.__exit__, None, None, None)
        warnings.simplefilter("ignore")  # those of transformers, peft and torch's checkpoint

    def test_has_the_bits_of_a_plain_loop(self):
        dtypes = (torch.float32, torch.bfloat16)
        for kind, dtype, recompute in itertools.product(KINDS, dtypes, (None, False, True)):
            made = lambda: with_lora(dtype, recompute, **KINDS[kind])  # noqa: B023, E731
            twin = made()
            base = frozen_weights(twin)
            loop = PlainLoop(twin, "adamw", [{"params": trained(twin), **VALUES}])
            expected = train(twin, loop.step)

            def run(**budgets):
                model = made()  # noqa: B023
                return train(model, boosted(model, **budgets).step), model.state_dict()

            for budget in ("none", "smallest"):
                with self.subTest(kind, dtype=dtype, recompute=recompute, budget=budget):
                    losses, weights = run() if budget == "none" else in_the_smallest_budgets(run, "device")
                    self.assertEqual(losses, expected)
                    self.assert_same(weights, twin.state_dict())
                    self.assert_same({name: weights[name] for name in base}, base)

    @unittest.skipIf(DEVICE.type != "cpu", "the budget has to hold segments of torch's allocator, and so all of this model")
    def test_the_base_has_no_states_and_is_never_written_back(self):
        with tempfile.TemporaryDirectory() as folder:
            for more in ({"host_budget": "4MiB"}, {"host_budget": "400KiB", "nvme": folder}):
                model = with_lora()
                own, base = bytes_of(trained(model)), bytes_of(p for p in model.parameters() if not p.requires_grad)
                optimizer = boosted(model, device_budget=small_budget("350KiB"), placement_policy="cpu", **more)
                train(model, optimizer.step, range(2))
                before = castor.stats(model)
                train(model, optimizer.step, range(2, 6))
                after = castor.stats(model)
                moved = {link: after["moved_bytes"][link] - before["moved_bytes"][link] for link in after["moved_bytes"]}
                self.assertGreaterEqual(moved["h2d"], 4 * base / 2, "the base is streamed")
                self.assertLessEqual(moved["d2h"] + moved["nvme_write"], 4 * 6 * own)
                self.assertLess(4 * 6 * own, 4 * base)
                held = sum(after["used_bytes"].values())
                self.assertLess(held, 2 * base + 8 * own, "weights on two tiers, and the states of the adapters")

    def test_merged_adapters_compute_the_same(self):
        """peft adds LoRA's in place, and gives the weight other memory where it checks values before, or for DoRA."""
        for kind, options in {"LoRA": {}, "DoRA": {"use_dora": True}}.items():
            for safe in (False, True):
                with self.subTest(kind, safe=safe):
                    self.check_merging(options, safe)

    def check_merging(self, options, safe):
        model = with_lora(**options)
        optimizer = boosted(model)
        train(model, optimizer.step)
        model.eval()
        with torch.no_grad():
            with model.disable_adapter():
                without = model(input_ids=tokens(7)).logits
            self.assertTrue(torch.equal(without, base_model().eval()(input_ids=tokens(7)).logits))
            expected = model(input_ids=tokens(7)).logits
            self.assertGreater((expected - without).abs().max().item(), 1e-2)
            for merge in (lambda: model.merge_adapter(safe_merge=safe), model.unmerge_adapter):
                with castor.gathered(model, write=True):
                    merge()
                torch.testing.assert_close(model(input_ids=tokens(7)).logits, expected, atol=1e-5, rtol=0)
        twin = with_lora(**options)
        twin_optimizer = boosted(twin)
        train(twin, twin_optimizer.step)
        for mine, other in zip(train(model.train(), optimizer.step), train(twin, twin_optimizer.step)):
            self.assertAlmostEqual(mine, other, delta=1e-4)

    def with_trained_adapters(self):
        booster = Booster(plugin=GeminiPlugin(precision=None, device_budget=small_budget("350KiB"), chunk_bytes="32KiB"))
        model = booster.enable_lora(base_model(), lora_config=config())
        optimizer = torch.optim.AdamW(trained(model), **VALUES)
        booster.boost(model, optimizer)
        train(model, optimizer.step)
        return booster, model, optimizer

    def test_saved_adapters_go_on(self):
        booster, model, _ = self.with_trained_adapters()
        model.eval()
        expected = model(input_ids=tokens(7)).logits
        for use_safetensors in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                booster.save_lora_as_pretrained(model, folder, use_safetensors)
                with_peft = peft.PeftModel.from_pretrained(base_model(), folder).eval()
                again = booster.enable_lora(base_model(), pretrained_dir=folder).eval()
            self.assertTrue(torch.equal(with_peft(input_ids=tokens(7)).logits, expected))
            self.assertEqual(len(trained(again)), len(trained(model)))
            booster.boost(again, torch.optim.AdamW(trained(again), **VALUES))
            self.assertTrue(torch.equal(again(input_ids=tokens(7)).logits, expected))

    def test_go_back_to_what_was_saved(self):
        booster, model, optimizer = self.with_trained_adapters()
        expected = {name: value.clone() for name, value in model.state_dict().items()}
        with tempfile.TemporaryDirectory() as folder:
            booster.save_model(model, folder, shard=True)
            train(model, optimizer.step)
            booster.load_model(model, folder)
            found = model.state_dict()
            self.assertTrue(all(torch.equal(found[name], value) for name, value in expected.items()))
            refused = (({"r": 2}, "sizes .* make the adapters as those"), ({"target_modules": ["q_proj"]}, "the model lacks .*lora_A"))
            for options, message in refused:
                other = booster.enable_lora(base_model(), lora_config=config(**options))
                with self.subTest(message), self.assertRaisesRegex(castor.Error, message):
                    booster.load_model(other, folder)
            booster.load_model(other, folder, strict=False)
            with_peft = peft.PeftModel.from_pretrained(base_model(), folder).state_dict()
            adapters = {name: value for name, value in other.state_dict().items() if "lora_" in name}
            self.assertEqual(len(adapters), 2 * len(base_model().model.layers))
            self.assertTrue(all(torch.equal(with_peft[name], value) for name, value in adapters.items()))

    def test_beside_a_base_without_memory_learn_once_it_is_loaded(self):
        """From files of the base alone, whose layers have other names beneath adapters."""
        booster = Booster(plugin=GeminiPlugin(precision=None, device_budget=small_budget("500KiB")))
        for init_lora_weights, target_modules in ((True, "all-linear"), ("gaussian", ["embed_tokens", "q_proj"])):
            options = {"init_lora_weights": init_lora_weights, "target_modules": target_modules}
            with self.subTest(**options), tempfile.TemporaryDirectory() as folder:
                base_model().save_pretrained(folder)
                with torch.device("meta"):
                    empty = MAKE().train()
                model = booster.enable_lora(empty, lora_config=config(**options))
                optimizer = torch.optim.AdamW(trained(model), **VALUES)
                booster.boost(model, optimizer)
                booster.load_model(model, folder)
                twin = peft.get_peft_model(base_model(), config(**options))
                twin.load_state_dict(model.state_dict())
                self.assertGreater(min(p.abs().max().item() for n, p in twin.named_parameters() if "lora_A" in n), 0)
                plain = PlainLoop(twin, "adamw", [{**VALUES, "params": trained(twin)}])
                self.assertEqual(train(model, optimizer.step), train(twin, plain.step))
                booster.save_model(model, f"{folder}/all.safetensors")
                booster.load_model(model, f"{folder}/all.safetensors")
                torch.save({"model.norm.weight": torch.ones(64)}, f"{folder}/part.pt")
                with self.assertRaisesRegex(castor.Error, "lacks weights of the model"):
                    booster.load_model(model, f"{folder}/part.pt")

    def test_that_were_saved_go_on_beside_a_base_without_memory(self):
        for kind in ("LoRA", "DoRA"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                booster = Booster(plugin=GeminiPlugin(precision=None, device_budget=small_budget("500KiB")))
                base_model().save_pretrained(f"{folder}/base")
                earlier = peft.get_peft_model(base_model(), config(**KINDS[kind]))
                train(earlier, PlainLoop(earlier, "adamw", [{**VALUES, "params": trained(earlier)}]).step)
                earlier.save_pretrained(f"{folder}/adapters")
                with torch.device("meta"):
                    empty = MAKE().train()
                with LazyInitContext(), self.assertRaisesRegex(castor.Error, "no file is read; call enable_lora .* after it"):
                    booster.enable_lora(empty, pretrained_dir=f"{folder}/adapters")
                model = booster.enable_lora(empty, pretrained_dir=f"{folder}/adapters")
                optimizer = torch.optim.AdamW(trained(model), **VALUES)
                booster.boost(model, optimizer)
                booster.load_model(model, f"{folder}/base")
                twin = peft.PeftModel.from_pretrained(base_model(), f"{folder}/adapters", is_trainable=True)
                plain = PlainLoop(twin, "adamw", [{**VALUES, "params": trained(twin)}])
                self.assertEqual(train(model, optimizer.step), train(twin, plain.step))

    def test_wrong_uses_are_refused(self):
        booster = Booster(plugin=GeminiPlugin())
        for call, message in (
            (lambda: booster.enable_lora(base_model()), "takes lora_config, a peft.LoraConfig, or pretrained_dir"),
            (lambda: booster.enable_lora(base_model(), lora_cofig=config()), "no option lora_cofig; did you mean lora_config?"),
            (lambda: booster.enable_lora(base_model(), lora_config={"r": 4}), "lora_config takes a peft.LoraConfig, not {'r': 4}"),
            (lambda: booster.enable_lora(base_model(), "/nowhere"), "/nowhere has no adapter_config.json"),
            (lambda: booster.save_lora_as_pretrained(nn.Linear(2, 2), "/tmp"), "has no adapters.*Linear.*enable_lora"),
        ):
            with self.assertRaisesRegex(castor.Error, message):
                call()
        model = nn.Sequential(nn.Linear(2, 2))
        booster.boost(model, torch.optim.AdamW(model.parameters()))
        with self.assertRaisesRegex(castor.Error, "enable_lora comes before boost"):
            booster.enable_lora(model, lora_config=config())


if __name__ == "__main__":
    unittest.main()
