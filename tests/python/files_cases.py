# SPDX-License-Identifier: Apache-2.0
"""Weights and states in files: what is saved is whole, and training goes on from it with the same bits."""

import json
import tempfile
import unittest
from pathlib import Path

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import SameWeights

try:
    import transformers
except ImportError:
    transformers = None
else:
    from models import MODELS

VALUES = {"lr": 1e-2, "weight_decay": 0.01}


def boosted(model=None, **options):
    if model is None:
        torch.manual_seed(0)
        model = TiedModel()
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    options = {"device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB", **options}
    booster = Booster(plugin=GeminiPlugin(**options))
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
        self.assertEqual(set(index["weight_map"]), set(model.state_dict()))
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
