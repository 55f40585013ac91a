# SPDX-License-Identifier: Apache-2.0
"""What a file of weights has, and what it may lack: parts of one memory, buffers, weights under the names of other versions."""

import math
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import numpy
import torch
from torch import nn
from torch.nn.utils import parametrizations

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin


def boosted(model, rate=0.1, **options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    Booster(plugin=GeminiPlugin(precision=None, **options)).boost(model, optimizer)
    return optimizer


class Statistics(nn.Module):
    """Two buffers that are halves of one tensor, and two parameters that are one."""

    def __init__(self):
        super().__init__()
        both = torch.zeros(2, 4)
        self.register_buffer("mean", both[0])
        self.register_buffer("var", both[1])
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        with torch.no_grad():
            self.mean.copy_(x.mean(0))
            self.var.copy_(x.var(0))
        return self.second(self.first(x))


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.booster = Booster(plugin=GeminiPlugin(precision=None))

    def test_parts_of_one_memory(self):
        torch.manual_seed(0)
        model = Statistics()
        optimizer = boosted(model)
        model(torch.randn(8, 4)).sum().backward()
        optimizer.step()
        for options in ({}, {"shard": True}, {"use_safetensors": False}, {"shard": True, "use_safetensors": False}):
            with self.subTest(**options):
                path = self.folder / "-".join(["weights", *options])
                self.booster.save_model(model, path, **options)
                other = Statistics()
                boosted(other)
                self.booster.load_model(other, path)
                for name, expected in model.state_dict().items():
                    self.assertTrue(torch.equal(other.state_dict()[name], expected), name)
        self.assertGreater(model.var.min().item(), 0)

    def test_that_a_failed_load_gave_do_not_count_for_the_next(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        optimizer = boosted(model)
        weights = {name: values.clone() for name, values in model.state_dict().items()}
        model(torch.ones(2, 4)).sum().backward()
        with self.assertRaisesRegex(castor.Error, "step is under way"):
            model.load_state_dict({name: values + 1 for name, values in weights.items()})
        optimizer.zero_grad()
        del weights["1.weight"]
        with self.assertRaisesRegex(RuntimeError, 'Missing key.*"1.weight"'):
            model.load_state_dict(weights)

    def test_that_are_no_tensors_are_refused(self):
        model = nn.Sequential(nn.Linear(4, 4))
        boosted(model)
        for values in (3, None, numpy.zeros((4, 4), numpy.float32)):
            with self.assertRaisesRegex(RuntimeError, f"0.weight is a {type(values).__name__}, and the parameter a tensor"):
                model.load_state_dict({**model.state_dict(), "0.weight": values})

    def test_of_files_that_cannot_be_mapped_are_read_once(self):
        """torch's old format, and a file of torch.save under a name of safetensors; 80 MiB each."""
        model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(5)))
        boosted(model)
        weights = {name: torch.full_like(values, i) for i, (name, values) in enumerate(model.state_dict().items())}
        for name, options in (("weights.bin", {"_use_new_zipfile_serialization": False}), ("model.safetensors", {})):
            torch.save(weights, self.folder / name, **options)
            with self.subTest(name), mock.patch.object(torch, "load", wraps=torch.load) as load:
                self.booster.load_model(model, self.folder / name)
                self.assertEqual(load.call_count, 1)
            for key, values in model.state_dict().items():
                self.assertTrue(torch.equal(values, weights[key]))

    def test_of_a_model_that_was_not_boosted(self):
        """Parameters side by side in one storage, as those of nn.LSTM on a GPU."""
        model = nn.Module()
        whole = torch.arange(12.0)
        for name, part in zip("qkv", whole.split(4)):
            model.register_parameter(name, nn.Parameter(part))
        self.booster.save_model(model, self.folder / "weights")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        self.booster.load_model(model, self.folder / "weights")
        self.assertEqual([p.tolist() for p in model.parameters()], [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])

    def test_that_lack_buffers_are_refused(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        boosted(model)
        weights = model.state_dict()
        for lacking, refused in (("1.running_mean", True), ("1.num_batches_tracked", False)):
            torch.save({name: value for name, value in weights.items() if name != lacking}, self.folder / "weights.pt")
            if refused:
                with self.assertRaisesRegex(castor.Error, f"lacks weights of the model: {lacking}"):
                    self.booster.load_model(model, self.folder / "weights.pt")
            self.booster.load_model(model, self.folder / "weights.pt", strict=not refused)

    def test_of_names_that_modules_translate(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)))
        torch.save(old.state_dict(), self.folder / "old.pt")
        model = nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 4)))
        boosted(model)
        self.booster.load_model(model, self.folder / "old.pt")
        x = torch.ones(1, 4)
        torch.testing.assert_close(model(x), old(x))
        torch.save({"0.bias": torch.zeros(4)}, self.folder / "part.pt")
        with self.assertRaisesRegex(castor.Error, "lacks weights of the model: 0.parametrizations.weight.original0"):
            self.booster.load_model(model, self.folder / "part.pt")

    def test_with_no_name_of_the_model_are_told_of(self):
        model = nn.Linear(4, 4)
        boosted(model)
        torch.save({"module." + name: value for name, value in model.state_dict().items()}, self.folder / "other.pt")
        with self.assertLogs("castor", "WARNING") as logged:
            self.booster.load_model(model, self.folder / "other.pt", strict=False)
        self.assertIn("has no weight of the model, whose names are as weight", logged.output[0])

    def test_extra_state_is_for_torchs_files(self):
        class Counted(nn.Linear):
            def get_extra_state(self):
                return {"n": 3}

            def set_extra_state(self, state):
                self.found = state

        model = nn.Sequential(Counted(4, 4))
        boosted(model)
        with self.assertRaisesRegex(castor.Error, "0._extra_state is a dict, .*use_safetensors=False"):
            self.booster.save_model(model, self.folder / "weights")
        self.booster.save_model(model, self.folder / "weights", use_safetensors=False)
        self.booster.load_model(model, self.folder / "weights")
        self.assertEqual(model[0].found, {"n": 3})

    def test_numbers_of_numpy_are_saved(self):
        def trained():
            model = nn.Linear(4, 4)
            return model, boosted(model, rate=0.01)

        for number in (numpy.float64, numpy.float32):
            model, optimizer = trained()
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: number(0.5 * (1 + math.cos(epoch / 10))))
            model(torch.ones(1, 4)).sum().backward()
            optimizer.step()
            scheduler.step()
            self.booster.save_optimizer(optimizer, self.folder / "run")
            self.booster.save_lr_scheduler(scheduler, self.folder / "scheduler")
            model, other = trained()
            its_scheduler = torch.optim.lr_scheduler.LambdaLR(other, lambda epoch: number(0.5 * (1 + math.cos(epoch / 10))))
            self.booster.load_optimizer(other, self.folder / "run")
            self.assertEqual(other.param_groups[0]["lr"], optimizer.param_groups[0]["lr"])
            self.booster.load_lr_scheduler(its_scheduler, self.folder / "scheduler")
            self.assertEqual(its_scheduler.get_last_lr(), scheduler.get_last_lr())

    def test_that_are_not_there_are_named_as_the_argument(self):
        optimizer = boosted(nn.Linear(4, 4))
        with self.assertRaisesRegex(castor.Error, "there is no such folder") as caught:
            self.booster.load_optimizer(optimizer, self.folder / "nowhere")
        self.assertEqual(caught.exception.option, "path")
        self.assertNotIn("resume_from", str(caught.exception))
