# SPDX-License-Identifier: Apache-2.0
"""Weights and states in files: what is saved is whole, and training goes on from it with the same bits."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import safetensors.torch
import torch
from safetensors import safe_open

import castor
import memory_program
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from castor.lazy import LazyInitContext
from pairs import SameWeights
from where import small_budget

try:
    import transformers
except ImportError:
    transformers = None
else:
    transformers.logging.set_verbosity_error()
    from models import MODELS

VALUES = {"lr": 1e-2, "weight_decay": 0.01}
CHUNK_BYTES = 16 << 10


def boosted(model=None, device=None, **options):
    if model is None:
        torch.manual_seed(0)
        model = TiedModel()
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    options = {"device_budget": small_budget("200KiB"), "host_budget": "1MiB", "chunk_bytes": "16KiB", **options}
    booster = Booster(device=device, plugin=GeminiPlugin(**options))
    booster.boost(model, optimizer)
    return booster, model, optimizer


def train(model, optimizer, seeds):
    for seed in seeds:
        loss_of(model, seed).backward()
        optimizer.step()


class Files(SameWeights):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="castor_python_")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Messages(Files):
    def test_other_settings_than_saved_are_logged(self):
        _, model, optimizer = boosted()
        train(model, optimizer, range(1))
        optimizer.castor_session.save(str(self.folder / "run"))
        booster, _, optimizer = boosted()
        optimizer.param_groups[0]["lr"] = 0.05
        optimizer.castor_follow_groups()
        with self.assertLogs("castor", "WARNING") as logged:
            booster.load_optimizer(optimizer, self.folder / "run")
        self.assertRegex(logged.output[0], r"goes on with other settings than before: `lr` 0\.05 \(was 0\.01\)")


class Weights(Files):
    def test_in_one_file_or_several_are_read_again(self):
        """Trap 2-08: also of a head that is tied to the embedding."""
        booster, model, optimizer = boosted()
        train(model, optimizer, range(2))
        torch.save(model.state_dict(), self.folder / "as usual.bin")
        booster.load_model(model, self.folder / "as usual.bin")
        for how, options in {
            "one.safetensors": {},
            "one.bin": {"use_safetensors": False},
            "shards": {"shard": True, "size_per_shard": 0.02},
        }.items():
            booster.save_model(model, self.folder / how, **options)
            torch.manual_seed(9)
            other_booster, other, _ = boosted(TiedModel())
            other_booster.load_model(other, self.folder / how)
            self.assert_same(other.state_dict(), model.state_dict())
        self.assertGreater(len(list((self.folder / "shards").glob("*.safetensors"))), 1)
        index = json.loads((self.folder / "shards/model.safetensors.index.json").read_text())
        tied = {"head.weight"}  # to the embedding; safetensors has it once
        self.assertEqual(set(index["weight_map"]), set(model.state_dict()) - tied)
        for name, file in index["weight_map"].items():
            with safe_open(self.folder / "shards" / file, "pt") as shard:
                self.assertIn(name, shard.keys())
        self.assertFalse(list(self.folder.rglob("*.part")))

    def test_that_are_missing_or_unknown_are_named(self):
        booster, model, _ = boosted()
        weights = model.state_dict()
        torch.save({name: weights[name] for name in list(weights)[1:4]}, self.folder / "part.bin")
        torch.save({**weights, "extra": torch.zeros(1)}, self.folder / "more.bin")
        with self.assertRaisesRegex(castor.Error, "lacks weights of the model: embedding.weight"):
            booster.load_model(model, self.folder / "part.bin")
        with self.assertRaisesRegex(castor.Error, "does not have: extra"):
            booster.load_model(model, self.folder / "more.bin")
        booster.load_model(model, self.folder / "more.bin", strict=False)

    def test_of_a_model_without_values_are_not_saved(self):
        with LazyInitContext():
            lazy = TiedModel()
        with torch.device("meta"):
            on_meta = TiedModel()
        waiting = TiedModel().to_empty(device="meta")
        boosted(waiting, device="cpu")
        for model in (lazy, on_meta, waiting):
            with self.assertRaisesRegex(castor.Error, "embedding.weight has no values"):
                Booster().save_model(model, self.folder / "weights.safetensors")
        with self.assertRaisesRegex(castor.Error, "has no memory yet"):
            safetensors.torch.save_file(lazy.state_dict(), self.folder / "weights.safetensors")
        torch.save(lazy.state_dict(), self.folder / "weights.bin")
        self.assert_same(torch.load(self.folder / "weights.bin"), LazyInitContext.materialize(lazy).state_dict())
        with self.assertRaisesRegex(castor.Error, "boost the model before its weights are loaded"):
            Booster().load_model(on_meta, self.folder / "weights.bin")
        with LazyInitContext():
            other = TiedModel()
        Booster().load_model(other, self.folder / "weights.bin")
        self.assert_same(LazyInitContext.materialize(other).state_dict(), lazy.state_dict())

    def test_of_modules_that_read_them_in_their_own_way(self):
        """Hooks, and extra state."""

        class Renaming(torch.nn.Linear):
            def _load_from_state_dict(self, state_dict, prefix, *rest):
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "kernel")
                super()._load_from_state_dict(state_dict, prefix, *rest)

        class Counting(torch.nn.Linear):
            n = 0

            def get_extra_state(self):
                return {"n": self.n}

            def set_extra_state(self, state):
                self.n = state["n"]

        booster, model, _ = boosted(Renaming(4, 4))
        weight, bias = torch.rand(4, 4).bfloat16(), torch.rand(4).bfloat16()
        torch.save({"kernel": weight, "bias": bias}, self.folder / "renamed.bin")
        booster.load_model(model, self.folder / "renamed.bin", strict=False)
        self.assert_same(model.state_dict(), {"weight": weight, "bias": bias})
        booster, model, _ = boosted(Counting(4, 4))
        torch.save({"weight": weight, "bias": bias, "_extra_state": {"n": 7}}, self.folder / "extra.bin")
        booster.load_model(model, self.folder / "extra.bin")
        self.assertEqual(model.n, 7)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_of_hugging_face_are_read_by_from_pretrained(self):
        """Trap 2-23: what is saved is whole. Qwen2 has tied weights."""
        for name in ("Qwen2", "Mixtral", "Whisper", "DeBERTa"):
            with self.subTest(name):
                torch.manual_seed(0)
                make, loss = MODELS[name]
                booster, model, optimizer = boosted(make().train(), device_budget="1MiB", host_budget="4MiB")
                loss(model, 0).backward()
                optimizer.step()
                model.save_pretrained(self.folder / name)
                booster.save_model(model, self.folder / f"{name} in shards", shard=True, size_per_shard=0.05)
                for folder in (name, f"{name} in shards"):
                    read = type(model).from_pretrained(self.folder / folder, dtype=torch.bfloat16)
                    self.assert_same(read.state_dict(), model.state_dict())


@unittest.skipUnless(transformers, "transformers is not installed")
class OfHuggingFace(Files):
    """Folders that save_pretrained has written, read into models on the meta device."""

    def on_meta(self, make, **options):
        with torch.device("meta"):
            model = make()
        options = {"precision": None, "device_budget": "2MiB", "host_budget": "8MiB", **options}
        booster, model, _ = boosted(model, device="cpu", **options)
        return booster, model

    def test_are_read_whatever_their_names(self):
        for name in ("GPT-2", "Qwen2", "Mixtral", "Qwen2-MoE", "T5", "DeBERTa", "BERT"):
            with self.subTest(name):
                make, loss = MODELS[name]
                torch.manual_seed(0)
                expected = make()
                expected.save_pretrained(self.folder / name, max_shard_size=40_000)
                self.assertGreater(len(list((self.folder / name).glob("*.safetensors"))), 1)
                booster, model = self.on_meta(make)
                booster.load_model(model, self.folder / name)
                self.assert_same(model.state_dict(), expected.state_dict())
                self.assertEqual(loss(model.eval(), 0).item(), loss(expected.eval(), 0).item())

    def test_without_the_prefix_of_the_model(self):
        """As the files of gpt2, which have the weights of the model without its head."""
        make, _ = MODELS["GPT-2"]
        torch.manual_seed(0)
        expected = make()
        expected.transformer.save_pretrained(self.folder / "base")
        booster, model = self.on_meta(make)
        booster.load_model(model, self.folder / "base")
        self.assert_same(model.state_dict(), expected.state_dict())

    def test_with_an_expert_too_few_are_refused(self):
        make, _ = MODELS["Mixtral"]
        make().save_pretrained(self.folder / "whole")
        weights = safetensors.torch.load_file(self.folder / "whole/model.safetensors")
        experts = sorted(name for name in weights if ".experts." in name)
        self.assertIn("model.layers.1.block_sparse_moe.experts.3.w3.weight", experts)
        safetensors.torch.save_file({n: w for n, w in weights.items() if n != experts[-1]}, self.folder / "part.safetensors")
        safetensors.torch.save_file({n: w for n, w in weights.items() if n not in experts}, self.folder / "none.safetensors")
        booster, model = self.on_meta(make)
        with self.assertRaisesRegex(castor.Error, "lacks weights of the model: .*experts"):
            booster.load_model(model, self.folder / "none.safetensors")
        with self.assertRaisesRegex(castor.Error, r"layers.1.mlp.experts.gate_up_proj cannot be made of .* \(7 tensors\)"):
            booster.load_model(model, self.folder / "part.safetensors")

    def test_tied_weights_stay_tied(self):
        """TRAPS 2-08: through saving and loading, under the names of Hugging Face."""
        make, loss = MODELS["Qwen2"]
        torch.manual_seed(0)
        booster, model, optimizer = boosted(make(), device_budget="1MiB", host_budget="4MiB")
        loss(model, 0).backward()
        optimizer.step()
        booster.save_model(model, self.folder / "ours", shard=True)
        plain = make()
        plain.save_pretrained(self.folder / "theirs")
        keys = [
            set(safetensors.torch.load_file(self.folder / folder / "model.safetensors")) for folder in ("ours", "theirs")
        ]
        self.assertEqual(keys[0], keys[1])
        booster, other = self.on_meta(make, precision="bf16")
        booster.load_model(other, self.folder / "ours")
        self.assertIs(other.lm_head.weight, other.model.embed_tokens.weight)
        self.assertEqual(sum(p.numel() for p in other.parameters()), sum(p.numel() for p in plain.parameters()))
        self.assert_same(other.state_dict(), model.state_dict())


class Memory(Files):
    def test_of_loading_is_that_of_a_few_tensors(self):
        """Of a model of 262 MB, in a program of its own, whose allocator keeps no large block that was freed."""
        program = [sys.executable, str(Path(memory_program.__file__)), str(self.folder)]
        keeps_none = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
        run = subprocess.run(program, capture_output=True, text=True, timeout=120, env=keeps_none)
        self.assertEqual(run.returncode, 0, run.stderr)
        added = json.loads(run.stdout.splitlines()[-1])
        limit = 2 * memory_program.HOST_BUDGET + 4 * memory_program.LARGEST
        for how, n_bytes in added.items():
            self.assertLess(n_bytes, limit, how)

    def test_of_going_on_is_that_of_training(self):
        """TRAPS 2-27, on one rank. How much is on NVMe at once depends on times, and is at most everything: weights, masters
        and moments."""
        options = {"device_budget": "120KiB", "host_budget": "400KiB", "nvme": [str(self.folder)]}
        booster, model, optimizer = boosted(**options)
        train(model, optimizer, range(3))
        booster.save_model(model, self.folder / "model.safetensors")
        booster.save_optimizer(optimizer, self.folder / "optimizer")
        peaks = castor.stats(model)["peak_bytes"]
        self.assertGreater(peaks["nvme"], 0)
        with torch.device("meta"):
            other = TiedModel()
        booster, other, its_optimizer = boosted(other, **options)
        booster.load_model(other, self.folder / "model.safetensors")
        booster.load_optimizer(its_optimizer, self.folder / "optimizer")
        train(other, its_optimizer, range(3, 6))
        peaks["nvme"] = 14 * sum(parameter.numel() for parameter in model.parameters())
        for tier, peak in castor.stats(other)["peak_bytes"].items():
            self.assertLessEqual(peak, peaks[tier] * 1.01 + CHUNK_BYTES, tier)  # one more may be on its way
        train(model, optimizer, range(3, 6))
        self.assert_same(other.state_dict(), model.state_dict())


class Optimizers(Files):
    def test_go_on_with_the_same_bits_on_other_budgets(self):
        """Trap 2-24: states by name, with their counters and rates."""
        booster, model, optimizer = boosted()
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)

        def steps(model, optimizer, scheduler, seeds):
            for seed in seeds:
                train(model, optimizer, [seed])
                scheduler.step()

        steps(model, optimizer, scheduler, range(3))
        booster.save_model(model, self.folder / "model.safetensors")
        booster.save_optimizer(optimizer, self.folder / "optimizer")
        booster.save_lr_scheduler(scheduler, self.folder / "scheduler")
        steps(model, optimizer, scheduler, range(3, 6))
        for budgets in ({"device_budget": "80KiB"}, {"device_budget": None, "host_budget": None}):
            torch.manual_seed(3)
            booster, other, its_optimizer = boosted(TiedModel(), **budgets)
            its_scheduler = torch.optim.lr_scheduler.ExponentialLR(its_optimizer, 0.7)
            booster.load_model(other, self.folder / "model.safetensors")
            booster.load_optimizer(its_optimizer, self.folder / "optimizer")
            booster.load_lr_scheduler(its_scheduler, self.folder / "scheduler")
            steps(other, its_optimizer, its_scheduler, range(3, 6))
            self.assert_same(other.state_dict(), model.state_dict())

    def test_by_state_dict_go_on_here_and_in_torch(self):
        """Trap 2-24. The states of a boosted optimizer in torch's own, and back."""
        booster, model, optimizer = boosted(precision=None)
        train(model, optimizer, range(3))
        torch.manual_seed(4)
        twin = TiedModel()
        twin.load_state_dict(model.state_dict())
        its_own = torch.optim.AdamW(twin.parameters(), **VALUES)
        its_own.load_state_dict(optimizer.state_dict())
        self.assertEqual(its_own.state[twin.head.weight]["step"], 3)
        _, other, its_optimizer = boosted(TiedModel(), precision=None)
        other.load_state_dict(twin.state_dict())
        its_optimizer.load_state_dict(its_own.state_dict())
        train(other, its_optimizer, range(3, 6))
        train(model, optimizer, range(3, 6))
        self.assert_same(other.state_dict(), model.state_dict())
        for seed in range(3, 6):
            its_own.zero_grad()
            loss_of(twin, seed).backward()
            its_own.step()
        self.assertAlmostEqual(loss_of(twin, 9).item(), loss_of(other, 9).item(), delta=1e-4)  # another order of operations

    def test_before_the_first_step_are_none(self):
        _, _, optimizer = boosted()
        self.assertEqual(optimizer.state_dict()["state"], {})

    def test_of_another_model_are_refused(self):
        booster, model, optimizer = boosted()
        train(model, optimizer, range(1))
        booster.save_optimizer(optimizer, self.folder / "optimizer")
        booster, _, other = boosted(torch.nn.Sequential(torch.nn.Linear(4, 4)))
        with self.assertRaisesRegex(castor.Error, "parameter"):
            booster.load_optimizer(other, self.folder / "optimizer")
        with self.assertRaisesRegex(castor.Error, "no such folder"):
            booster.load_optimizer(other, self.folder / "nowhere")
