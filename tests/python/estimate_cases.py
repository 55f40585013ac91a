# SPDX-License-Identifier: Apache-2.0
"""castor.estimate against counts by hand, and against trainings."""

import contextlib
import dataclasses
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

import castor
import models
from boost_cases import TiedModel, loss_of
from castor import _core
from castor._estimate_command import main
from castor._timed_unit import in_turns, repeated
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from castor.lazy import LazyInitContext
from castor.nn.optimizer import FusedLAMB, Lamb
from where import DEVICE

try:
    import transformers
except ImportError:
    transformers = None

META = torch.device("meta")
N_SLEEPERS, SLEEP_S = 4, 0.02


def plugin(**options):
    return GeminiPlugin(**{"precision": None, "device_budget": "8GiB", "host_budget": "8GiB", **options})


class Perceptron(nn.Module):
    def __init__(self, width=256, n_layers=3):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(n_layers)))

    def forward(self, x):
        return self.layers(x).sum()


class Blocks(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        make = lambda: nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128), nn.LayerNorm(128))  # noqa: E731
        self.blocks = nn.ModuleList(make() for _ in range(4))
        self.recompute = recompute

    def forward(self, x):
        for block in self.blocks:
            x = block(x) if self.recompute is None else checkpoint(block, x, use_reentrant=self.recompute)
        return x.square().mean()


class Sleeper(nn.Linear):
    def forward(self, x):
        if not x.is_meta:
            time.sleep(SLEEP_S)
        return x + super().forward(x)


class Sleepers(Blocks):
    def __init__(self, recompute):
        super().__init__(False if recompute else None)
        self.blocks = nn.ModuleList(Sleeper(64, 64) for _ in range(N_SLEEPERS))


class Alive(TorchDispatchMode):
    """The most bytes that tensors of the host take after any operator, but for parameters and the batch."""

    def __init__(self, model, batch):
        super().__init__()
        self.known = {values.untyped_storage()._cdata for values in (*model.parameters(), batch)}
        self.alive = {}
        self.peak_bytes = 0
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", None))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata not in self.known:
                storage = tensor.untyped_storage()
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.alive = {key: found for key, found in self.alive.items() if not found[0].expired()}
        self.peak_bytes = max(self.peak_bytes, sum(n_bytes for _, n_bytes in self.alive.values()))
        return result


@unittest.skipUnless(DEVICE.type == "cpu", "a forecast is made on the host")
class Estimates(unittest.TestCase):
    def test_operations_are_those_of_the_products(self):
        """Of each layer three of 2·b·w² in a step, but for the gradient of the input, which nobody asks for."""
        found = castor.estimate(Perceptron(256, 5), plugin(), torch.empty(64, 256))
        self.assertEqual(found.flops, (5 * 3 - 1) * 2 * 64 * 256**2)
        self.assertEqual(found.n_params, 5 * 256**2)

    def test_activations_are_what_is_alive_at_once(self):
        """Counted in a training of the model in memory, whose gradients leave as they come."""
        for recompute in (None, False, True):
            with self.subTest(recompute=recompute):
                model, x = Blocks(recompute), torch.randn(1024, 128, requires_grad=True)
                found = castor.estimate(model, plugin(), x)
                with Alive(model, x) as alive:
                    model(x).backward()
                self.assertAlmostEqual(found.activation_bytes / (alive.peak_bytes + x.nbytes), 1, delta=0.01)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_logits_take_12_bytes_each_in_the_loss_of_transformers(self):
        """In backward: what the log-softmax has kept, its gradient, and that of its input, in fp32."""

        def activations(n_tokens):
            make, _ = models.causal("Qwen2Config", hidden_size=64, intermediate_size=64, num_hidden_layers=1, vocab_size=n_tokens)
            with META:
                model = make().train()
            batch = {"input_ids": torch.empty(4, 512, dtype=torch.long), "labels": torch.empty(4, 512, dtype=torch.long)}
            return castor.estimate(model, plugin(precision="bf16"), batch).activation_bytes

        self.assertAlmostEqual((activations(40_000) - activations(20_000)) / (20_000 * 4 * 512), 12, delta=0.05)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_the_models_of_the_table(self):
        refused = []
        for name, (make, loss, *_) in models.MODELS.items():
            model = make().train()
            with self.subTest(name), mock.patch.object(models, "DEVICE", META):
                try:
                    found = castor.estimate(model, plugin(precision="bf16"), 0, loss, device="cpu")
                except castor.Error as error:
                    refused.append((name, str(error)))
                    continue
                self.assertEqual(found.n_params, sum(parameter.numel() for parameter in model.parameters()))
                self.assertGreater(found.flops, 0)
                self.assertGreater(found.step_s, 0)
        self.assertEqual([name for name, _ in refused], ["experts in a ModuleList"], refused)
        self.assertIn("values of tensors", refused[0][1])

    def test_peaks_are_those_of_a_training(self):
        """On the CPU the device tier is chunks alone."""
        for budgets in ({}, {"device_budget": "200KiB", "host_budget": "1MiB"}, {"device_budget": "160KiB", "host_budget": "1MiB"}):
            for more in ({}, {"max_norm": 1.0, "micro_batches": 1}):
                with self.subTest(budgets=budgets, more=more):
                    options = {"precision": "bf16", **budgets, **more}
                    tokens = torch.zeros(4, 16, dtype=torch.long)
                    loss = lambda model, tokens: model(tokens).logsumexp(-1).mean()  # noqa: E731
                    found = castor.estimate(TiedModel(), plugin(**options), tokens, loss, device="cpu")
                    model = TiedModel()
                    optimizer = torch.optim.AdamW(model.parameters())
                    Booster(plugin=plugin(**options)).boost(model, optimizer)
                    for _ in range(12):
                        loss_of(model, 0).backward()
                        optimizer.step()
                    for tier, peak in castor.stats(model)["peak_bytes"].items():
                        self.assertAlmostEqual(found.peak_bytes[tier], peak, delta=0.12 * peak + 1, msg=tier)

    def test_one_of_the_units_that_repeat_is_timed(self):
        """A block sleeps in forward once it has memory, and is the model's only work."""
        for recompute, n_sleeps in ((False, 1), (True, 2)):
            with self.subTest(recompute=recompute):
                with META:
                    model = Sleepers(recompute)
                found = castor.estimate(model, plugin(), torch.empty(8, 64), device="cpu", timed=True)
                self.assertEqual(found.timed, "blocks.3")
                self.assertIn("±10 %: blocks.3 was timed", str(found))
                expected = N_SLEEPERS * n_sleeps * SLEEP_S
                self.assertGreater(found.compute_s, 0.9 * expected)
                self.assertLess(found.compute_s, 1.8 * expected)
                self.assertTrue(all(parameter.is_meta for parameter in model.parameters()))
                untimed = castor.estimate(model, plugin(), torch.empty(8, 64), device="cpu")
                self.assertIsNone(untimed.timed)
                self.assertIn("±30 %", str(untimed))
                stated = {"flops_per_s": untimed.flops, "host_update_bytes_per_s": 1e15}
                slow = castor.estimate(model, plugin(), torch.empty(8, 64), device="cpu", timed=True, machine=stated)
                self.assertAlmostEqual(slow.compute_s, 1, delta=0.01)
                again = castor.estimate(model, plugin(), torch.empty(8, 64), device="cpu", machine=found.machine)
                self.assertEqual(dataclasses.replace(again, timed=found.timed), found, "by the rates that were timed")
                self.assertIn("by the stated flops_per_s", str(again))

    def test_a_unit_that_is_called_again_is_timed_once(self):
        for recompute, n_sleeps in ((False, 1), (True, 2)):
            with self.subTest(recompute=recompute):
                with META:
                    model = Sleepers(recompute)
                again = lambda model, x: model(x) + model(x) + model(x)  # noqa: E731
                state = torch.random.get_rng_state()
                found = castor.estimate(model, plugin(), torch.empty(8, 64), again, device="cpu", timed=True)
                self.assertTrue(torch.equal(torch.random.get_rng_state(), state))
                expected = 3 * N_SLEEPERS * n_sleeps * SLEEP_S
                self.assertGreater(found.compute_s, 0.9 * expected)
                self.assertLess(found.compute_s, 1.8 * expected)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_models_of_hugging_face_are_timed(self):
        """With their caches, and where those that repeat most are embeddings."""
        for name in ("GPT-2", "Qwen2", "BERT", "Whisper"):
            make, loss, *_ = models.MODELS[name]
            with self.subTest(name), mock.patch.object(models, "DEVICE", META):
                found = castor.estimate(make().train(), plugin(precision="bf16"), 0, loss, device="cpu", timed=True)
                self.assertGreater(found.step_s, 0)
                self.assertNotIn("embed", found.timed)

    def test_what_runs_beside_a_unit_runs_until_it_ends(self):
        """As updates do on a GPU, also where the unit fails; and what they raise is raised."""
        seen = []
        for ends_in in (contextlib.nullcontext(), self.assertRaises(ZeroDivisionError)):
            with ends_in, repeated(lambda: seen.append(time.sleep(1e-3))):
                seen.clear()
                while len(seen) < 3:
                    time.sleep(1e-3)
                if not isinstance(ends_in, contextlib.nullcontext):
                    1 / 0
            n = len(seen)
            time.sleep(0.02)
            self.assertEqual(len(seen), n)
        with self.assertRaises(ZeroDivisionError), repeated(lambda: 1 / 0):
            pass

    def test_a_unit_is_timed_alone_and_beside_updates(self):
        """Here a unit takes 5 ms, and 10 while anything is updated; half a second passes in all."""

        class Updates:
            now = False

            def step(self):
                self.now = True
                time.sleep(0.02)
                self.now = False

        updates = Updates()
        with mock.patch("castor._timed_unit.MOST_S", 0.5):
            alone_s, slowdown = in_turns(lambda: time.sleep(0.01 if updates.now else 0.005), torch.device("cpu"), updates)
        self.assertGreaterEqual(alone_s, 0.005)
        self.assertLess(alone_s, 0.015, "one unit, not all of a row")
        self.assertGreater(slowdown, 1.3)
        self.assertLess(slowdown, 2.5)

    def test_what_cannot_be_timed_is_said(self):
        with META:
            embeddings = nn.ModuleList(nn.Embedding(10, 8) for _ in range(3))
        loss = lambda model, x: sum(each(x).sum() for each in model)  # noqa: E731
        with self.assertRaisesRegex(castor.Error, "none of the units that the model repeats multiplies matrices"):
            castor.estimate(embeddings, plugin(), torch.zeros(2, dtype=torch.long), loss, device="cpu", timed=True)
        with self.assertRaisesRegex(castor.Error, "no two units of the model are alike"):
            castor.estimate(nn.Linear(4, 4, device="meta"), plugin(), torch.empty(2, 4), device="cpu", timed=True)
        with mock.patch.object(torch.cuda, "is_available", lambda: False), self.assertRaisesRegex(castor.Error, "torch sees none"):
            castor.estimate(nn.Linear(4, 4, device="meta"), plugin(), torch.empty(2, 4), timed=True)

    def test_a_budget_that_is_too_small_says_what_would_do(self):
        tokens = torch.empty(4, 16, dtype=torch.long)
        loss = lambda model, tokens: model(tokens).logsumexp(-1).mean()  # noqa: E731
        for budgets in ({"device_budget": 1 << 10, "host_budget": 1 << 10}, {"device_budget": 1 << 10}, {"host_budget": 1 << 10}):
            with self.assertRaises(castor.Error) as raised:
                castor.estimate(TiedModel(), plugin(**budgets), tokens, loss, device="cpu")
            self.assertEqual(raised.exception.kind, "does_not_fit")
            self.assertGreater(raised.exception.needed, 1 << 10)
            sizes = {name: size for name, *size in re.findall(r"`(\w+_budget)` to ([\d.]+) (\w+)", str(raised.exception))}
            would_do = {name: "".join(size) for name, size in sizes.items()}
            self.assertEqual(would_do.keys(), budgets.keys())
            found = castor.estimate(TiedModel(), plugin(**would_do), tokens, loss, device="cpu")
            tier = raised.exception.tier
            self.assertLessEqual(found.peak_bytes[tier], raised.exception.needed)
            for budget, (size, unit) in sizes.items():
                n_bytes = float(size) * 1024 ** ("B", "KiB", "MiB", "GiB").index(unit)
                self.assertLessEqual(found.peak_bytes[budget.partition("_")[0]], n_bytes)

    def test_a_loss_that_calls_no_module(self):
        loss = lambda model, x: model.layers[0].weight.square().sum()  # noqa: E731
        for n_micro_batches in (None, 1, 2):
            found = castor.estimate(Perceptron(), plugin(micro_batches=n_micro_batches), torch.empty(8, 256), loss, device="cpu")
            self.assertGreater(found.peak_bytes["device"], 0)

    def test_advises_the_budgets_that_a_training_needs(self):
        """Beside a drive; how many micro-batches a step has counts, for what gradients take."""
        with tempfile.TemporaryDirectory() as folder:
            for n_micro_batches in (None, 1, 2):
                of_least = {"host_budget": "64KiB", "nvme": [folder], "micro_batches": n_micro_batches}
                advice = []
                for use in (
                    lambda plugin: castor.estimate(Perceptron(512, 4), plugin, torch.empty(8, 512), device="cpu"),
                    lambda plugin: Booster(device="cpu", plugin=plugin).boost(model := Perceptron(512, 4), torch.optim.AdamW(model.parameters())),
                ):
                    with self.assertRaisesRegex(castor.Error, "raise `host_budget`") as raised:
                        use(plugin(**of_least))
                    advice.append((raised.exception.needed, re.search("raise `host_budget` to ([^;]*)", str(raised.exception))[1]))
                self.assertEqual(advice[0], advice[1], n_micro_batches)
                castor.estimate(Perceptron(512, 4), plugin(**{**of_least, "host_budget": advice[0][1]}), torch.empty(8, 512), device="cpu")

    def test_wrong_arguments_are_named(self):
        model, batch = nn.Linear(4, 4, device="meta"), torch.empty(2, 4)
        for wrong, message in (
            ({"plugin": "gemini"}, "plugin takes a plugin"),
            ({"model": "gpt2"}, "a model is wanted, not 'gpt2'"),
            ({"loss": 3}, "loss takes a function of the model and the batch"),
            ({"machine": [1]}, "machine takes rates by their names"),
            ({"machine": {"flops": 1}}, "machine has no flops; did you mean flops_per_s"),
            ({"optimizer": int}, "optimizer takes a class of optimizers.* not int"),
            ({"optimizer": torch.optim.SGD(nn.Linear(2, 2).parameters())}, r"not SGD\(…\)"),
            ({"device": "tpu"}, "device takes"),
        ):
            with self.subTest(message), self.assertRaisesRegex(castor.Error, message):
                castor.estimate(**{"model": model, "plugin": plugin(), "batch": batch, **wrong})

    def test_inputs_and_results_are_cast_as_in_training(self):
        with torch.device("meta"):
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 4))
        dtypes = []

        def loss(model, batch):
            dtypes.append(model(batch).dtype)
            return model(batch).sum()

        for more in ({}, {"force_outputs_fp32": True}):
            castor.estimate(model, plugin(precision="bf16", **more), torch.empty(2, 3, 8, 8), loss)
        self.assertEqual(dtypes, [torch.bfloat16, torch.float32])

    def test_a_model_may_look_for_what_is_amiss(self):
        def loss(model, x):
            if torch.isnan(x).any() or not torch.isfinite(x).all():
                raise ValueError("nan")
            return model(x)

        self.assertGreater(castor.estimate(Perceptron(), plugin(), torch.empty(8, 256), loss).flops, 0)

    def test_the_model_stays_as_it_was(self):
        model = Perceptron()
        before = {name: values.clone() for name, values in model.state_dict().items()}
        castor.estimate(model, plugin(precision="bf16"), torch.empty(8, 256))
        self.assertTrue(all(torch.equal(values, before[name]) for name, values in model.state_dict().items()))
        self.assertFalse(any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()))
        self.assertTrue(all(parameter.grad is None for parameter in model.parameters()))

    def test_clips_as_the_optimizer_does(self):
        """Speculative updates take memory of the host: updates wait for the norm."""
        on_host = {"placement_policy": "static", "offload_optim_frac": 1.0, "stream_optim_frac": 0.0, "micro_batches": 1}
        of_plugin, of_optimizer, without = (
            castor.estimate(Perceptron(), plugin(max_norm=norm, **on_host), torch.empty(8, 256), optimizer=optimizer)
            for norm, optimizer in ((1.0, Lamb), (0.0, FusedLAMB), (0.0, Lamb))
        )
        self.assertEqual(of_optimizer, of_plugin)
        self.assertGreater(of_optimizer.peak_bytes["host"], without.peak_bytes["host"])

    def test_of_a_model_that_was_built_lazily(self):
        make = lambda: nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))  # noqa: E731
        with LazyInitContext():
            model = make()
        loss = lambda model, x: model(x).sum()  # noqa: E731
        for precision in (None, "bf16"):
            found, expected = (castor.estimate(each, plugin(precision=precision), torch.empty(4, 16), loss) for each in (model, make()))
            self.assertEqual(found, expected)

    def test_sizes_are_told_in_their_units(self):
        cases = ((0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (3 << 29, "1.50 GiB"), (5 << 50, "5120 TiB"))
        for n_bytes, text in cases:
            self.assertEqual(_core.format_bytes(n_bytes), text)

    def test_a_slower_machine_takes_longer(self):
        times = [
            castor.estimate(Perceptron(), plugin(), torch.empty(64, 256), machine={"flops_per_s": flops}).compute_s
            for flops in (1e9, 2e9)
        ]
        self.assertAlmostEqual(times[0] / times[1], 2, delta=0.1)
        self.assertRegex(str(castor.estimate(Perceptron(), plugin(), torch.empty(64, 256))), "bound by .*")

    def test_updates_on_the_host_slow_computing_as_far_as_they_run_beside_it(self):
        on_host = plugin(placement_policy="static", offload_optim_frac=1.0, stream_optim_frac=0.0)
        for update_rate in (1e9, 4e9, 1e15):
            with self.subTest(update_rate):
                machine = {"flops_per_s": 1e10, "host_update_bytes_per_s": update_rate}
                alone, beside = (
                    castor.estimate(Perceptron(), on_host, torch.empty(64, 256), machine={**machine, "compute_slowdown": times})
                    for times in (1, 2)
                )
                share = min(1, beside.update_s / beside.step_s)
                self.assertAlmostEqual(alone.compute_s / beside.compute_s, 1 - share + share / 2, delta=0.02)

    def test_wrong_uses_are_refused(self):
        x = torch.empty(8, 256)
        boosted = Perceptron()
        Booster(plugin=plugin()).boost(boosted, torch.optim.AdamW(boosted.parameters()))
        for call, message in (
            (lambda: castor.estimate(boosted, plugin(), x), "boosted already"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, machine={"flops": 1}), "did you mean flops_per_s"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, device="tpu"), "'cuda' or 'cpu'"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, machine={"flops_per_s": 0}), "a number above 0"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, machine={"compute_slowdown": 0.9}), "1 or more"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, machine={"h2d_bytes_per_s": float("nan")}), "a number above 0"),
            (lambda: castor.estimate(Perceptron(), plugin(), x, optimizer=torch.optim.SGD([x])), "takes a class"),
            (lambda: castor.estimate(nn.Linear(256, 2), plugin(), x), "state loss="),
            (lambda: castor.estimate(Perceptron(), plugin(), x, optimizer=torch.optim.Adagrad), "Adagrad"),
            (lambda: castor.estimate(Perceptron(), plugin(units="layer"), x), "units names layer"),
        ):
            with self.subTest(message), self.assertRaisesRegex(castor.Error, message):
                call()


@unittest.skipUnless(DEVICE.type == "cuda", "no GPU is asked for")
class TimedOnAGPU(unittest.TestCase):
    def test_a_unit_is_timed_alone_and_beside_updates(self):
        with META:
            model = Blocks(recompute=False)
        on_host = plugin(placement_policy="static", offload_optim_frac=1.0, stream_optim_frac=0.0)
        torch.cuda.empty_cache()
        reserved = torch.cuda.memory_reserved()
        for each in (on_host, plugin()):
            found = castor.estimate(model, each, torch.empty(4096, 128), timed=True)
            self.assertEqual(found.timed, "blocks.3")
            self.assertGreaterEqual(found.machine["compute_slowdown"], 1, "whether anything is updated on the host or not")
            self.assertLess(found.machine["compute_slowdown"], 3)
            self.assertLessEqual(torch.cuda.memory_reserved(), reserved, "what was timed is given back")


@unittest.skipUnless(transformers and DEVICE.type == "cpu", "transformers is not installed")
class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        make, _ = models.causal("Qwen2Config", hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=128)
        make().config.save_pretrained(folder.name)
        self.folder = pathlib.Path(folder.name)

    def run_with(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(map(str, arguments)))
        return code, out.getvalue(), err.getvalue()

    def test_of_a_config(self):
        budgets = ("--device-budget", "1GiB", "--host-budget", "1GiB", "--seq", 64, "--recompute", "--clip", "1.0")
        code, text, _ = self.run_with("--hf", self.folder / "config.json", *budgets)
        self.assertEqual(code, 0)
        self.assertRegex(text, r"^[\d,]+ parameters; peaks: device [\d.]+ MiB, host [\d.]+ MiB; .* bound by .*\n[\d.]+ KiB of activations")
        code, text, _ = self.run_with("--hf", self.folder, *budgets, "--json")
        self.assertEqual(json.loads(text)["n_params"], sum(p.numel() for p in self.model().parameters()))

    def model(self):
        return models.causal("Qwen2Config", hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=128)[0]()

    def test_the_bench_puts_one_beside_its_training(self):
        here = pathlib.Path(__file__).parent
        paths = [str(here), str(here.parents[1] / "bench" / "compare")]
        program = f"import runpy, sys; sys.path[:0] = {paths!r}; import models; runpy.run_module('engine_castor', run_name='__main__')"
        job = "--model qwen2:tiny --batch 2 --accumulate 2 --seq 32 --device cpu --device-budget 256KiB --host-budget 64MiB --steps 12"
        done = subprocess.run([sys.executable, "-c", program, *job.split(), "--estimate"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["estimated"]["n_params"], found["params"])
        self.assertEqual(found["estimated"]["peak_bytes"], found["peak_bytes"])
        self.assertGreater(found["estimated"]["machine"]["flops_per_s"], 0)
        self.assertRegex(done.stderr, "model.layers.1 was timed")

    def test_messages_name_its_options(self):
        code, _, text = self.run_with("--hf", self.folder, "--device-budget", "1KiB")
        self.assertEqual(code, 1)
        self.assertRegex(text, "^castor: device tier: .* raise --device-budget to ")
        code, _, text = self.run_with("--hf", self.folder / "nothing", "--device-budget", "1GiB")
        self.assertRegex(text, "^castor: there is no .*nothing")
        (self.folder / "bad.json").write_text("{")
        config = json.loads((self.folder / "config.json").read_text())
        for name, more in (("heads", {"num_attention_heads": 0}), ("quantized", {"quantization_config": {"quant_method": "bitsandbytes"}})):
            (self.folder / name).mkdir()
            (self.folder / name / "config.json").write_text(json.dumps({**config, **more}))
        with self.assertRaises(SystemExit):
            self.run_with("--hf", self.folder, "--device", "cpu", "--device-budget", "1GiB")
        sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 128}
        transformers.BertConfig(**sizes, max_position_embeddings=32).save_pretrained(self.folder / "positions")
        for arguments, message in (
            (("--hf", self.folder / "bad.json"), "is no config of a causal language model"),
            (("--hf", self.folder / "heads"), "is no config of a causal language model"),
            (("--hf", self.folder / "quantized"), "is of a quantized model"),
            (("--hf", self.folder, "--clip", -1), "--clip takes"),
            (("--hf", self.folder, "--batch", 0), "--batch takes a number above 0"),
            (("--hf", self.folder, "--timed"), "--timed needs the GPU"),
            (("--hf", self.folder / "positions", "--seq", 64), "does not run on 1 x 64 tokens, which the model has positions for up to 32 of"),
        ):
            code, _, text = self.run_with(*arguments, "--device-budget", "1GiB")
            self.assertEqual(code, 1)
            self.assertRegex(text, message)


if __name__ == "__main__":
    unittest.main()
