# SPDX-License-Identifier: Apache-2.0
"""Options of plugins: names and defaults, what each does, and what is refused or warned of."""

import inspect
import json
import pathlib
import pydoc
import subprocess
import unittest
import warnings

import torch
from torch import nn

import castor
from boost_cases import Block, TiedModel, loss_of, train
from castor._units import find_units
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, HybridParallelPlugin, LowLevelZeroPlugin, TorchDDPPlugin
from pairs import SameWeights

SCALER = {
    "initial_scale": 2**16,
    "min_scale": 1,
    "growth_factor": 2,
    "backoff_factor": 0.5,
    "growth_interval": 1000,
    "hysteresis": 2,
    "max_scale": 2**32,
}
DDP = {
    "broadcast_buffers": True,
    "find_unused_parameters": False,
    "check_reduction": False,
    "gradient_as_bucket_view": False,
    "static_graph": False,
    "fp8_communication": False,
}
GEMINI = {
    "placement_policy": "auto",
    "shard_param_frac": 1.0,
    "offload_optim_frac": 0.0,
    "offload_param_frac": 0.0,
    "warmup_non_model_data_ratio": 0.8,
    "steady_cuda_cap_ratio": 0.9,
    "gpu_margin_mem_ratio": 0.0,
    "precision": "bf16",
    "master_weights": True,
    "enable_gradient_accumulation": False,
    "max_prefetch": 0,
    "pin_memory": False,
    "chunk_config_dict": None,
    "chunk_init_device": None,
    "search_range_m": 32,
    "hidden_dim": None,
    "min_chunk_size_m": 32,
    "force_outputs_fp32": False,
    "strict_ddp_mode": False,
    "scatter_after_inference": True,
    "tp_size": 1,
    "extra_dp_size": 1,
    **SCALER,
    "max_norm": 0.0,
    "norm_type": 2.0,
    "enable_sequence_parallelism": False,
    "enable_all_optimization": False,
    "enable_fused_normalization": False,
    "enable_flash_attention": False,
    "enable_jit_fused": False,
    "enable_async_reduce": True,
    "mixed_precision": None,
    "memstats": None,
    "use_fp8": False,
    "fp8_communication": False,
    "verbose": False,
    "device_budget": None,
    "host_budget": None,
    "nvme": None,
    "nvme_offload_fraction": None,
    "durability": None,
    "units": None,
}
DEFAULTS = {
    TorchDDPPlugin: {**DDP, "bucket_cap_mb": 25},
    LowLevelZeroPlugin: {
        "stage": 1,
        "precision": "fp16",
        **SCALER,
        "max_norm": 0.0,
        "norm_type": 2.0,
        "reduce_bucket_size_in_m": 12,
        "communication_dtype": None,
        "overlap_communication": True,
        "overlap_allgather": False,
        "cpu_offload": False,
        "master_weights": True,
        "cast_inputs": True,
        "extra_dp_size": 1,
        "use_fp8": False,
        "fp8_communication": False,
        "verbose": False,
    },
    GeminiPlugin: GEMINI,
    HybridParallelPlugin: {
        **GEMINI,
        **DDP,
        "tp_size": inspect.Parameter.empty,
        "pp_size": inspect.Parameter.empty,
        "sp_size": None,
        "precision": "fp16",
        "zero_stage": 0,
        "sequence_parallelism_mode": None,
        "enable_sequence_overlap": False,
        "parallel_output": True,
        "num_microbatches": None,
        "microbatch_size": None,
        "ddp_bucket_cap_mb": 25,
        "zero_bucket_size_in_m": 12,
        "cpu_offload": False,
        "communication_dtype": None,
        "overlap_communication": True,
        "custom_policy": None,
        "pp_style": "1f1b",
        "num_model_chunks": 1,
        "num_layers_per_stage": None,
        "make_vocab_size_divisible_by": 64,
        "dp_outside": True,
        "overlap_p2p": True,
        "gradient_checkpoint_config": None,
        "enable_metadata_cache": True,
        "inner_ring_size": None,
    },
}

# Options that do something on one rank, or are refused.
WITH_EFFECT = {
    *SCALER,
    *("precision", "mixed_precision", "max_norm", "norm_type", "force_outputs_fp32", "cast_inputs", "units"),
    *("placement_policy", "offload_optim_frac", "offload_param_frac", "cpu_offload"),
    *("device_budget", "host_budget", "nvme", "nvme_offload_fraction", "durability"),
    *("tp_size", "pp_size", "sp_size", "extra_dp_size", "dp_outside", "num_microbatches", "microbatch_size"),
}
ANOTHER = {
    "stage": 2,
    "zero_stage": 1,
    "pp_style": "interleaved",
    "sequence_parallelism_mode": "ring",
    "communication_dtype": torch.bfloat16,
}


def made(plugin, **options):
    return plugin(1, 1, **options) if plugin is HybridParallelPlugin else plugin(**options)


def another(name, default):
    if name in ANOTHER:
        return ANOTHER[name]
    if isinstance(default, bool):
        return not default
    return object() if default is None else default + 1


def command():
    """The command beside the package, where it has been built."""
    path = pathlib.Path(castor.__file__).parents[2] / "castor"
    return path if path.is_file() else None


class Signatures(unittest.TestCase):
    def test_have_every_option_with_its_default(self):
        for plugin, defaults in DEFAULTS.items():
            parameters = inspect.signature(plugin.__init__).parameters
            for name, default in defaults.items():
                with self.subTest(plugin=plugin.__name__, option=name):
                    self.assertEqual(parameters[name].default, default)
                    self.assertIs(type(parameters[name].default) is bool, type(default) is bool)
            values = made(plugin)
            for name in defaults:
                self.assertIn(name, vars(values) | vars(type(values)), name)

    def test_are_shown_by_help(self):
        for plugin, defaults in DEFAULTS.items():
            text = pydoc.render_doc(plugin)
            self.assertEqual([name for name in defaults if f"{name}: " not in text], [], plugin.__name__)

    @unittest.skipUnless(command(), "the command was not built beside the package")
    def test_have_every_option_of_the_core(self):
        listed = json.loads(subprocess.run([command(), "plugins", "list", "--json"], capture_output=True, check=True).stdout)
        names = {option["name"] for plugin in listed["plugins"] if plugin["name"] == "gemini" for option in plugin["options"]}
        self.assertGreater(len(names), 15)
        for plugin in (GeminiPlugin, HybridParallelPlugin):
            self.assertEqual(names - set(inspect.signature(plugin.__init__).parameters), set())

    def test_positions_of_older_scripts(self):
        self.assertEqual(LowLevelZeroPlugin(1, precision="bf16").stage, 1)
        self.assertEqual(HybridParallelPlugin(1, 1).pp_size, 1)


class WithoutEffect(unittest.TestCase):
    def warned(self, call):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
        return seen

    def test_defaults_are_taken_in_silence(self):
        for plugin, defaults in DEFAULTS.items():
            stated = {name: value for name, value in defaults.items() if value is not inspect.Parameter.empty}
            self.assertEqual(self.warned(lambda: made(plugin, **stated)), [])

    def test_other_values_are_warned_of_once_at_the_line_of_the_call(self):
        n_checked = 0
        for plugin, defaults in DEFAULTS.items():
            for name in defaults.keys() - WITH_EFFECT:
                with self.subTest(plugin=plugin.__name__, option=name):
                    seen = self.warned(lambda: made(plugin, **{name: another(name, defaults[name])}))
                    self.assertEqual(len(seen), 1)
                    self.assertRegex(str(seen[0].message), rf"^{plugin.__name__}\({name}=…\) has no effect: .{{12,}}")
                    self.assertEqual(seen[0].filename, __file__)
                    n_checked += 1
        self.assertGreater(n_checked, 60)

    def test_options_with_effect_are_not_warned_of(self):
        scaled = {"initial_scale": 8, "precision": "fp16"}
        for options in ({"max_norm": 1.0}, {"device_budget": "1GiB"}, {"units": ["blocks.0"]}, scaled):
            self.assertEqual(self.warned(lambda: GeminiPlugin(**options)), [])

    def test_loss_scaling_needs_fp16(self):
        seen = self.warned(lambda: GeminiPlugin(initial_scale=8, hysteresis=1))
        message = "GeminiPlugin(initial_scale=…) has no effect: losses are scaled under fp16, and precision is bf16"
        self.assertEqual([str(each.message) for each in seen], [message])


class Refusals(unittest.TestCase):
    def assert_refused(self, call, message, option):
        with self.assertRaisesRegex(castor.Error, message) as raised:
            call()
        self.assertEqual((raised.exception.kind, raised.exception.option), ("usage", option))

    def test_unknown_options_name_the_nearest(self):
        for plugin, option, near in (
            (TorchDDPPlugin, "bucket_cap_m", "bucket_cap_mb"),
            (LowLevelZeroPlugin, "cpu_ofload", "cpu_offload"),
            (GeminiPlugin, "placement_polcy", "placement_policy"),
            (GeminiPlugin, "updates_threads", "update_threads"),
            (HybridParallelPlugin, "tensor_size", ""),
            (HybridParallelPlugin, "num_microbatch", "num_microbatches"),
        ):
            message = f"{plugin.__name__} has no option {option}" + (f"; did you mean {near}\\?" if near else "")
            self.assert_refused(lambda: made(plugin, **{option: 1}), message, option)

    def test_values_out_of_a_few(self):
        for plugin, option, value, message in (
            (LowLevelZeroPlugin, "stage", 3, "stage takes one of 1, 2, not 3"),
            (HybridParallelPlugin, "zero_stage", 3, "zero_stage takes one of 0, 1, 2, not 3"),
            (HybridParallelPlugin, "pp_style", "zbw", "not 'zbw'; did you mean zbv"),
            (HybridParallelPlugin, "sequence_parallelism_mode", "rings", "not 'rings'; did you mean ring"),
            (HybridParallelPlugin, "num_microbatches", 0, "num_microbatches is 0"),
            (GeminiPlugin, "placement_policy", "sttaic", "did you mean static"),
            (LowLevelZeroPlugin, "precision", "float16", "precision takes one of fp32, bf16, fp16, not 'float16'"),
            (GeminiPlugin, "norm_type", 1.0, "norm_type is 1.0; Castor clips by the 2-norm"),
            (GeminiPlugin, "tp_size", 0, "tp_size is 0"),
        ):
            with self.subTest(option=option, value=value):
                self.assert_refused(lambda: made(plugin, **{option: value}), message, option)

    def test_values_of_other_types_name_the_option_when_the_plugin_is_made(self):
        switches = ("accumulate_gradients", "offload_activations", "overlap_updates", "split_master")
        for option, value, takes in (
            *((name, "off", "True, False or None") for name in switches),
            ("speculative_updates", "maybe", "one of auto, on, off, True, False"),
            *((name, value, "0 \\(off\\) or") for name in ("max_norm",) for value in ("1.0", -1.0, float("nan"), [1], True)),
            *(("micro_batches", value, "a whole number from 1, or None") for value in (1.5, "2", 0, True)),
            ("debug", "yes", "True or False"),
            ("cast_inputs", "no", "True or False"),
            ("force_outputs_fp32", "no", "True or False"),
            *((name, [1], "bytes as a number") for name in ("device_budget", "host_budget", "nvme_budget", "chunk_bytes")),
            *(("nvme", value, "a folder, or a list of folders") for value in ({"/d"}, 5, [5])),
            *(("units", value, "names or classes of modules") for value in (5, [5])),
            *((name, "a", "a number") for name in ("offload_optim_frac", "nvme_offload_fraction", "io_timeout")),
            *((name, 1.5, "a whole number") for name in ("update_threads", "rounding_seed")),
            ("tp_size", "1", "a whole number"),
            ("initial_scale", "a", "a finite number above 0"),
            ("initial_scale", 0.5, "a number from min_scale to max_scale, 1 to 4294967296"),
            ("max_scale", 0.5, "a number from min_scale, 1"),
            ("growth_factor", 1, "a finite number above 1"),
            ("backoff_factor", 1, "a number above 0 and below 1"),
            *((name, value, "a whole number from 1") for name in ("growth_interval", "hysteresis") for value in (0, 1.5)),
            *((name, torch.float64, "one of fp32, bf16, fp16") for name in ("precision", "mixed_precision")),
            ("mixed_precision", "bf61", "one of fp32, bf16, fp16, not 'bf61'; did you mean bf16"),
        ):
            for plugin in (GeminiPlugin, HybridParallelPlugin)[: 1 if option == "tp_size" else 2]:
                with self.subTest(plugin=plugin.__name__, option=option, value=value):
                    self.assert_refused(lambda: made(plugin, **{option: value}), f"{option} takes {takes}", option)
        for plugin in (TorchDDPPlugin, LowLevelZeroPlugin):
            self.assert_refused(lambda: plugin(max_norm="1.0"), "max_norm takes", "max_norm")
        self.assert_refused(lambda: LowLevelZeroPlugin(cpu_offload="no"), "takes True or False", "cpu_offload")
        self.assert_refused(lambda: HybridParallelPlugin(1, 1, num_microbatches="2"), "a whole number", "num_microbatches")

    def test_values_of_a_scaler(self):
        from castor.mixed_precision import FP16TorchMixedPrecision

        for option, value in (("init_scale", "a"), ("growth_factor", 1.0), ("backoff_factor", 2), ("growth_interval", 1.5)):
            self.assert_refused(lambda: FP16TorchMixedPrecision(**{option: value}), f"{option} takes ", option)

    def test_more_ranks_than_there_are(self):
        for call, message, option in (
            (lambda: HybridParallelPlugin(2, 2), r"HybridParallelPlugin\(tp_size=2, pp_size=2\) takes 4 ranks", "tp_size"),
            (lambda: HybridParallelPlugin(1, 1, 8), r"\(sp_size=8\) takes 8 ranks", "sp_size"),
            (lambda: GeminiPlugin(tp_size=2), r"GeminiPlugin\(tp_size=2\) takes 2 ranks", "tp_size"),
            (lambda: LowLevelZeroPlugin(extra_dp_size=3), r"\(extra_dp_size=3\) takes 3 ranks", "extra_dp_size"),
        ):
            self.assert_refused(call, f"{message} or a multiple, and there is 1; start the script with torchrun", option)

    def test_states_in_two_places(self):
        self.assert_refused(
            lambda: HybridParallelPlugin(1, 1, cpu_offload=True, placement_policy="cuda"),
            "cpu_offload=True keeps .* placement_policy='cuda'",
            "cpu_offload",
        )

    def test_values_that_the_core_checks_name_the_option(self):
        wrong = {
            **dict.fromkeys(("device_budget", "host_budget", "nvme_budget", "chunk_bytes"), "lots"),
            **dict.fromkeys(("nvme_offload_fraction", "offload_optim_frac", "offload_param_frac"), 2),
            **dict.fromkeys(("update_threads", "rounding_seed", "io_timeout"), -5),
            **dict.fromkeys(("durability", "moments", "optimizer"), "other"),
            "stream_optim_frac": 2,
            "const_device_bytes": "1MiB",
        }
        for option, value in wrong.items():
            with self.subTest(option=option):
                model = nn.Linear(4, 4)
                before = {name: weight.clone() for name, weight in model.state_dict().items()}
                optimizer = torch.optim.AdamW(model.parameters())
                plugin = GeminiPlugin(**{option: value})
                self.assert_refused(lambda: Booster(plugin=plugin).boost(model, optimizer), f"`?{option}`?", option)
                self.assertIs(type(optimizer), torch.optim.AdamW)
                for name, weight in model.state_dict().items():
                    self.assertTrue(torch.equal(weight, before[name]))

    def test_a_class_is_no_plugin(self):
        self.assert_refused(lambda: Booster(plugin=GeminiPlugin), r"plugin takes a plugin, as GeminiPlugin\(\)", "plugin")


class Effects(SameWeights):
    def test_options_for_the_core(self):
        for plugin, options in (
            (TorchDDPPlugin(), {}),
            (LowLevelZeroPlugin(), {}),
            (LowLevelZeroPlugin(cpu_offload=True), {"placement_policy": "cpu"}),
            (HybridParallelPlugin(1, 1), {}),
            (
                HybridParallelPlugin(1, 1, cpu_offload=True, host_budget="1GiB"),
                {"placement_policy": "cpu", "host_budget": "1GiB"},
            ),
            (GeminiPlugin(), {}),
            (GeminiPlugin(offload_optim_frac=0.5), {"placement_policy": "static", "offload_optim_frac": "0.5"}),
            (GeminiPlugin(offload_param_frac=1.0), {"placement_policy": "static", "offload_param_frac": "1.0"}),
            (GeminiPlugin(placement_policy="cuda"), {"placement_policy": "cuda"}),
            (GeminiPlugin(nvme=["/a,b", pathlib.Path("/c")]), {"nvme": "/a\\,b,/c"}),
            (GeminiPlugin(nvme=pathlib.Path("/a,b")), {"nvme": "/a\\,b"}),
        ):
            self.assertEqual(plugin.options, options)

    def test_switches_of_the_core_take_truth_values(self):
        def optimizer_of(parameters):
            return torch.optim.AdamW(parameters, lr=3e-3)

        expected = train(GeminiPlugin(precision=None), optimizer_of, torch.bfloat16, n_steps=2)
        switches = ("accumulate_gradients", "offload_activations", "overlap_updates", "split_master", "speculative_updates")
        for name in switches:
            for value in (True, False):
                with self.subTest(option=name, value=value):
                    plugin = GeminiPlugin(precision=None, **{name: value})
                    losses, weights = train(plugin, optimizer_of, torch.bfloat16, n_steps=2)
                    self.assertEqual(losses, expected[0])
                    self.assert_same(weights, expected[1])

    def test_numbers_may_be_those_of_numpy(self):
        import numpy

        plugin = GeminiPlugin(
            max_norm=numpy.float32(0.5), micro_batches=numpy.int64(1), device_budget=numpy.int64(1 << 20), host_budget=1e8
        )
        model = nn.Linear(4, 4)
        Booster(plugin=plugin).boost(model, torch.optim.AdamW(model.parameters()))
        self.assertEqual(castor.stats(model)["budget_bytes"]["device"], 1 << 20)
        self.assertEqual(castor.stats(model)["budget_bytes"]["host"], 10**8)

    def test_every_strategy_has_the_same_bits(self):
        def optimizer_of(parameters):
            return torch.optim.AdamW(parameters, lr=3e-3)

        losses, weights = train(TorchDDPPlugin(), optimizer_of, torch.bfloat16)
        for plugin in (
            LowLevelZeroPlugin(precision=None),
            LowLevelZeroPlugin(precision=None, cpu_offload=True),
            HybridParallelPlugin(1, 1, precision=None),
            HybridParallelPlugin(1, 1, precision=None, cpu_offload=True),
            GeminiPlugin(precision=None, offload_optim_frac=0.5, offload_param_frac=0.5),
            GeminiPlugin(precision=None, units=["blocks", "head"]),
        ):
            moved_losses, moved_weights = train(plugin, optimizer_of, torch.bfloat16)
            self.assertEqual(moved_losses, losses)
            self.assert_same(moved_weights, weights)

    def test_cpu_offload_keeps_states_off_the_device(self):
        """A host that does not hold them is too small for it, however much the device holds."""

        def boost(**options):
            model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
            plugin = HybridParallelPlugin(1, 1, precision="fp32", host_budget="2MiB", **options)
            Booster(plugin=plugin).boost(model, torch.optim.AdamW(model.parameters()))

        boost()
        with self.assertRaises(castor.Error) as raised:
            boost(cpu_offload=True)
        self.assertEqual((raised.exception.kind, raised.exception.tier), ("does_not_fit", "host"))
        self.assertGreaterEqual(raised.exception.needed, 8 * (256 * 256 + 256) * 8)  # two fp32 moments

    def test_loss_scaling_begins_as_stated(self):
        for plugin, scale in (
            (LowLevelZeroPlugin(), 2.0**16),
            (LowLevelZeroPlugin(initial_scale=2**5), 32.0),
            (HybridParallelPlugin(1, 1, initial_scale=2**7), 128.0),
            (GeminiPlugin(precision="fp16", initial_scale=2**9), 512.0),
            (TorchDDPPlugin(precision="fp16", max_scale=2**10, initial_scale=2**10), 1024.0),
        ):
            model = nn.Linear(4, 4)
            optimizer = torch.optim.AdamW(model.parameters())
            Booster(plugin=plugin).boost(model, optimizer)
            self.assertEqual(model.weight.dtype, torch.float16)
            self.assertEqual(optimizer.castor_session.loss_scale(), scale)

    def test_losses_are_not_scaled_otherwise(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plugin = GeminiPlugin(initial_scale=8)
        model = nn.Linear(4, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        Booster(plugin=plugin).boost(model, optimizer)
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()

    def test_precision_by_a_dtype(self):
        for given, precision in ((torch.float16, "fp16"), (torch.bfloat16, "bf16"), (torch.float32, "fp32"), ("fp16", "fp16")):
            self.assertEqual(GeminiPlugin(mixed_precision=given).precision, precision)
            self.assertEqual(GeminiPlugin(precision=given).precision, precision)
            self.assertEqual(TorchDDPPlugin(precision=given).precision, precision)
        self.assertEqual(GeminiPlugin(precision="fp16", mixed_precision=torch.float16).precision, "fp16")
        with self.assertRaisesRegex(castor.Error, "precision='fp32' and mixed_precision='fp16' are two names of one option"):
            GeminiPlugin(precision="fp32", mixed_precision="fp16")

    def test_inputs_stay_as_they_are_if_asked(self):
        model = nn.Linear(4, 4)
        Booster(plugin=GeminiPlugin(cast_inputs=False)).boost(model, torch.optim.AdamW(model.parameters()))
        with self.assertRaisesRegex(RuntimeError, "dtype"):
            model(torch.ones(1, 4))

    def test_units(self):
        model = TiedModel()
        for chosen in ([Block], ["blocks.0", "blocks.1", "blocks.2"], Block):
            self.assertEqual([unit.name for unit in find_units(model, chosen)], [unit.name for unit in find_units(model)])
        self.assertEqual([unit.name for unit in find_units(model, ["blocks"])], ["embedding", "blocks", "head"])
        for wrong, message in (("block", "block, .* did you mean blocks"), (nn.Conv2d, "Conv2d")):
            with self.assertRaisesRegex(castor.Error, f"units names {message}") as raised:
                find_units(model, [wrong])
            self.assertEqual(raised.exception.option, "units")


class Attributes(unittest.TestCase):
    def test_of_one_rank(self):
        for plugin in map(made, DEFAULTS):
            self.assertEqual((plugin.dp_size, plugin.tp_size, plugin.pp_size), (1, 1, 1))
            self.assertEqual((plugin.dp_group, plugin.tp_group, plugin.pp_group, plugin.sp_group), (None,) * 4)
            stages = plugin.stage_manager
            self.assertTrue(stages.is_first_stage() and stages.is_last_stage())
            self.assertEqual((stages.num_stages, stages.stage), (1, 0))

    def test_prepare_dataloader(self):
        plugin, data = TorchDDPPlugin(), torch.arange(10)

        def epochs(**options):
            loader = plugin.prepare_dataloader(data, 4, **options)
            return [[batch.tolist() for batch in loader] for _ in range(2)]

        self.assertEqual(epochs(), [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]] * 2)
        self.assertEqual(epochs(drop_last=True), [[[0, 1, 2, 3], [4, 5, 6, 7]]] * 2)
        first, second = epochs(shuffle=True)
        self.assertEqual(sorted(sum(first, [])), list(range(10)))
        self.assertNotEqual(first, second)
        self.assertEqual(epochs(shuffle=True), [first, second])
        self.assertNotEqual(epochs(shuffle=True, seed=3)[0], first)
        generator = torch.Generator().manual_seed(1024)
        self.assertEqual(sum(first, []), torch.randperm(10, generator=generator).tolist())
        loader = plugin.prepare_dataloader(data, 4, shuffle=True)
        loader.sampler.set_epoch(1)
        self.assertEqual([batch.tolist() for batch in loader], second)

    def test_prepare_dataloader_takes_a_sampler_and_options_of_torch(self):
        sampler = torch.utils.data.DistributedSampler
        loader = GeminiPlugin().prepare_dataloader(
            range(10), 4, distributed_sampler_cls=sampler, collate_fn=tuple, num_workers=0
        )
        self.assertIs(type(loader.sampler), sampler)
        self.assertEqual(list(loader), [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)])


class BoosterOptions(unittest.TestCase):
    def boosted(self, **options):
        torch.manual_seed(0)
        model = nn.Linear(4, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        booster = Booster(**options)
        booster.boost(model, optimizer)
        return booster, model, optimizer

    def test_mixed_precision_of_a_plugin_that_states_none(self):
        from castor.booster.mixed_precision import FP16TorchMixedPrecision as same
        from castor.mixed_precision import BF16MixedPrecision, FP16TorchMixedPrecision

        self.assertIs(same, FP16TorchMixedPrecision)
        for given, dtype, scale in (
            ("bf16", torch.bfloat16, None),
            (BF16MixedPrecision(), torch.bfloat16, None),
            (torch.bfloat16, torch.bfloat16, None),
            ("fp16", torch.float16, 2.0**16),
            (FP16TorchMixedPrecision(init_scale=2.0**7), torch.float16, 2.0**7),
        ):
            for plugin in (None, TorchDDPPlugin(), GeminiPlugin(precision=None)):
                booster, model, optimizer = self.boosted(mixed_precision=given, plugin=plugin)
                self.assertEqual(model.weight.dtype, dtype)
                if scale:
                    self.assertEqual(optimizer.castor_session.loss_scale(), scale)
                if plugin:
                    self.assertIs(booster.plugin, plugin)
                    self.assertIsNone(plugin.precision)
        self.assertEqual(self.boosted()[1].weight.dtype, torch.float32)

    def test_the_scaler_is_that_of_torch(self):
        """Each overflow halves the scale, and it doubles after growth_interval good steps."""
        from castor.mixed_precision import FP16TorchMixedPrecision

        scaling = FP16TorchMixedPrecision(init_scale=8.0, growth_interval=2)
        _, model, optimizer = self.boosted(mixed_precision=scaling)
        scales = []
        for gradient in (torch.inf, torch.inf, 1.0, 1.0, 1.0):
            optimizer.backward(model(torch.ones(1, 4)).sum() * gradient)
            optimizer.step()
            scales.append(optimizer.castor_session.loss_scale())
        self.assertEqual(scales, [4.0, 2.0, 2.0, 4.0, 4.0])
        self.assertEqual(FP16TorchMixedPrecision().growth_interval, 2000)

    def test_mixed_precision_of_a_plugin_that_states_one(self):
        for plugin in (GeminiPlugin(), LowLevelZeroPlugin(precision="bf16"), TorchDDPPlugin(precision="bf16")):
            with self.assertWarnsRegex(UserWarning, f"{type(plugin).__name__} states precision='bf16'") as warned:
                booster = Booster(mixed_precision="fp16", plugin=plugin)
            self.assertEqual(warned.filename, __file__)
            model = nn.Linear(4, 4)
            booster.boost(model, torch.optim.AdamW(model.parameters()))
            self.assertEqual(model.weight.dtype, torch.bfloat16)

    def test_unknown_ones_are_refused(self):
        for given, message in (("fp61", "did you mean fp16"), ("half", "takes one of fp16, bf16"), (16, "not 16")):
            for plugin in (TorchDDPPlugin(), GeminiPlugin()):
                with self.assertRaisesRegex(castor.Error, f"mixed_precision takes .*{message}|{message}"):
                    Booster(mixed_precision=given, plugin=plugin)

    def test_device(self):
        self.assertEqual(self.boosted(device="cpu")[1].weight.device.type, "cpu")
        model = nn.Linear(4, 4)
        Booster(device=torch.device("cpu")).boost(model)
        self.assertEqual(model(torch.ones(1, 4)).device.type, "cpu")
        with self.assertRaisesRegex(castor.Error, "device takes one of cpu, cuda, not 'cdua'; did you mean cuda"):
            Booster(device="cdua")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_a_gpu_that_is_not_there(self):
        with self.assertRaisesRegex(castor.Error, "torch sees no GPU"):
            Booster(device="cuda")


class Computing(unittest.TestCase):
    def test_low_level_zero_trains_in_fp16(self):
        torch.manual_seed(0)
        model = TiedModel()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        Booster(plugin=LowLevelZeroPlugin(max_norm=1.0)).boost(model, optimizer)
        losses = []
        for seed in range(6):
            loss = loss_of(model, seed)
            optimizer.backward(loss)
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0])
