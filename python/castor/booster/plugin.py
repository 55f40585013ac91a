# SPDX-License-Identifier: Apache-2.0
"""The strategies: where parameters, gradients and optimizer states lie."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from castor._errors import Error
from castor._precision import DTYPES, precision_of
from castor.booster._options import of_core, option, size_of_core, unused
from castor.booster._plugin import Plugin

__all__ = ["GeminiPlugin", "HybridParallelPlugin", "LowLevelZeroPlugin", "Plugin", "TorchDDPPlugin"]

REDUCED = "gradients are reduced among ranks, and there is one"
SHARDED = "states are sharded among ranks, and there is one"
TENSOR_PARALLEL = "it is of tensor and sequence parallelism, and there is one rank"
PIPELINE = "it is of a pipeline of several ranks, and there is one"
LAID_OUT = "chunks are laid out from the model and the budgets"
MEASURED = "the memory of activations is measured in the first steps"
BUDGETED = "device_budget states the memory of the device"
AS_WRITTEN = "the model's own modules run as they are"


def in_home(folders: Sequence[str | os.PathLike] | str | os.PathLike) -> list[str] | str:
    """With `~` as the user's home."""
    if isinstance(folders, str):
        return os.path.expanduser(folders)
    return [os.path.expanduser(folder) for folder in ([folders] if isinstance(folders, os.PathLike) else folders)]


@dataclass(kw_only=True, init=False, eq=False, repr=False)
class DdpOptions(Plugin):
    broadcast_buffers: bool = unused(True, "buffers are broadcast among ranks, and there is one")
    find_unused_parameters: bool = unused(False, "a parameter without a gradient is left alone")
    check_reduction: bool = unused(False, REDUCED)
    gradient_as_bucket_view: bool = unused(False, "gradients are taken as autograd finishes them")
    static_graph: bool = unused(False, "the graph may change from step to step")


@dataclass(kw_only=True, init=False, eq=False, repr=False)
class ZeroOptions(Plugin):
    master_weights: bool = unused(True, "updates go to fp32 masters, of which a bf16 weight is a part")
    extra_dp_size: int = 1
    use_fp8: bool = unused(False, "the model computes in `precision`")
    verbose: bool = unused(False, "what the library says goes to logging.getLogger('castor')")


@dataclass(kw_only=True, init=False, eq=False, repr=False)
class OffloadOptions(ZeroOptions):
    cpu_offload: bool = False
    communication_dtype: torch.dtype | None = unused(None, REDUCED)
    overlap_communication: bool = unused(True, REDUCED)
    overlap_allgather: bool = unused(False, SHARDED)

    @property
    def options(self) -> dict[str, str]:
        return super().options | ({"placement_policy": "cpu"} if self.cpu_offload else {})


@dataclass(kw_only=True, init=False, eq=False, repr=False)
class PlannerOptions(ZeroOptions):
    placement_policy: str = option("auto", choices=("auto", "static", "cuda", "cpu", "const"), core=True)
    offload_optim_frac: float = of_core(0.0)
    offload_param_frac: float = of_core(0.0)
    device_budget: float | str | None = size_of_core()
    host_budget: float | str | None = size_of_core()
    nvme_budget: float | str | None = size_of_core()
    nvme: Sequence[str | os.PathLike] | str | os.PathLike | None = of_core(takes="a folder, or a list of folders")
    nvme_offload_fraction: float | None = of_core()
    durability: str | None = of_core()
    const_device_bytes: float | str | None = size_of_core()
    accumulate_gradients: bool | None = of_core()
    offload_activations: bool | None = of_core()
    overlap_updates: bool | None = of_core()
    speculative_updates: str | bool | None = option(None, choices=(None, "auto", "on", "off", True, False), core=True)
    stream_optim_frac: float | None = of_core()
    update_threads: int | None = of_core()
    split_master: bool | None = of_core()
    optimizer: str | None = of_core()
    moments: str | None = of_core()
    rounding_seed: int | None = of_core()
    io_timeout: float | None = of_core()
    chunk_bytes: float | str | None = size_of_core()

    mixed_precision: torch.dtype | str | None = None
    tp_size: int = 1
    shard_param_frac: float = unused(1.0, "parameters are sharded among ranks, and there is one")
    warmup_non_model_data_ratio: float = unused(0.8, MEASURED)
    steady_cuda_cap_ratio: float = unused(0.9, BUDGETED)
    gpu_margin_mem_ratio: float = unused(0.0, BUDGETED)
    enable_gradient_accumulation: bool = unused(False, "gradients add up over any number of backward passes")
    max_prefetch: int = unused(0, "the planner fetches ahead as far as there is room")
    pin_memory: bool = unused(False, "host memory is pinned wherever the GPU copies from it")
    chunk_config_dict: dict | None = unused(None, LAID_OUT)
    chunk_init_device: torch.device | str | None = unused(None, LAID_OUT)
    search_range_m: int = unused(32, LAID_OUT)
    hidden_dim: int | None = unused(None, LAID_OUT)
    min_chunk_size_m: float = unused(32, LAID_OUT)
    strict_ddp_mode: bool = unused(False, "every placement has the same bits")
    scatter_after_inference: bool = unused(True, "parameters are released as the budgets require")
    enable_async_reduce: bool = unused(True, "gradients move beside the computing")
    memstats: Any = unused(None, MEASURED)
    enable_all_optimization: bool = unused(False, AS_WRITTEN)
    enable_fused_normalization: bool = unused(False, AS_WRITTEN)
    enable_flash_attention: bool = unused(False, AS_WRITTEN)
    enable_jit_fused: bool = unused(False, AS_WRITTEN)
    enable_sequence_parallelism: bool = unused(False, TENSOR_PARALLEL)

    def _settle(self) -> None:
        super()._settle()
        if self.mixed_precision is not None:
            self._take_mixed_precision(precision_of(self.mixed_precision, "mixed_precision"))
        if self.nvme is not None:
            self.nvme = in_home(self.nvme)
        if isinstance(self.speculative_updates, bool):
            self.speculative_updates = "on" if self.speculative_updates else "off"
        if self.placement_policy == "auto" and (self.offload_optim_frac or self.offload_param_frac):
            self.placement_policy = "static"

    def _take_mixed_precision(self, stated: str) -> None:
        if self.precision not in (stated, type(self).precision):
            raise Error(
                f"precision={self.precision!r} and mixed_precision={stated!r} are two names of one option; state one of them",
                "usage",
                "mixed_precision",
            )
        self.precision = stated


@dataclass(kw_only=True, eq=False, repr=False)
class TorchDDPPlugin(DdpOptions):
    """Everything stays on the model's device. castor.booster.plugin.Plugin explains the options."""

    bucket_cap_mb: int = unused(25, REDUCED)


@dataclass(kw_only=True, eq=False, repr=False)
class LowLevelZeroPlugin(OffloadOptions):
    """Parameters stay on the model's device, and with cpu_offload optimizer states are kept and updated off it.
    castor.booster.plugin.Plugin explains further options."""

    stage: int = option(1, choices=(1, 2), unused=SHARDED, kw_only=False)
    precision: torch.dtype | str | None = option("fp16", choices=(None, *DTYPES))
    reduce_bucket_size_in_m: int = unused(12, REDUCED)


@dataclass(kw_only=True, eq=False, repr=False)
class GeminiPlugin(PlannerOptions):
    """Everything moves between device, host and NVMe under budgets.

    device_budget, host_budget, nvme_budget: bytes, or text as '8GiB'; None: no limit. nvme: folders of the NVMe tier.
    offload_optim_frac, offload_param_frac: shares that are off the device; placement_policy 'auto' becomes 'static' then.
    mixed_precision: another name of precision. castor.booster.plugin.Plugin explains further
    options, and `castor plugins list -v` those that are None by default.
    """

    precision: torch.dtype | str | None = option("bf16", choices=(None, *DTYPES))


@dataclass(kw_only=True, eq=False, repr=False)
class HybridParallelPlugin(OffloadOptions, PlannerOptions, DdpOptions):
    """Grids of ranks for tensor, pipeline and sequence parallelism, with the options of GeminiPlugin.

    cpu_offload: optimizer states are kept and updated off the device. num_microbatches, microbatch_size: how
    Booster.execute_pipeline divides a batch. dp_outside: data parallelism is the outermost axis of the grid, or the next.
    """

    tp_size: int = field(kw_only=False)
    pp_size: int = field(kw_only=False)
    sp_size: int | None = field(default=None, kw_only=False)
    precision: torch.dtype | str | None = option("fp16", choices=(None, *DTYPES))
    zero_stage: int = option(0, choices=(0, 1, 2), unused=SHARDED)
    num_microbatches: int | None = None
    microbatch_size: int | None = None
    sequence_parallelism_mode: str | None = option(
        None, choices=(None, "split_gather", "ring", "all_to_all", "ring_attn"), unused=TENSOR_PARALLEL
    )
    enable_sequence_overlap: bool = unused(False, TENSOR_PARALLEL)
    parallel_output: bool = unused(True, TENSOR_PARALLEL)
    custom_policy: Any = unused(None, TENSOR_PARALLEL)
    make_vocab_size_divisible_by: int = unused(64, TENSOR_PARALLEL)
    inner_ring_size: int | None = unused(None, TENSOR_PARALLEL)
    ddp_bucket_cap_mb: int = unused(25, REDUCED)
    zero_bucket_size_in_m: int = unused(12, REDUCED)
    pp_style: str = option("1f1b", choices=("1f1b", "interleaved", "zbv"), unused=PIPELINE)
    num_model_chunks: int = unused(1, PIPELINE)
    num_layers_per_stage: Sequence[int] | None = unused(None, PIPELINE)
    overlap_p2p: bool = unused(True, PIPELINE)
    enable_metadata_cache: bool = unused(True, PIPELINE)
    dp_outside: bool = True
    gradient_checkpoint_config: Any = unused(
        None, "the model says what is recomputed, as gradient_checkpointing_enable() does"
    )

    def _settle(self) -> None:
        super()._settle()
        for name in ("num_microbatches", "microbatch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise Error(f"{name} is {value}; it takes a number from 1", "usage", name)
        if self.cpu_offload and self.placement_policy not in ("auto", "cpu"):
            raise Error(
                f"cpu_offload=True keeps optimizer states off the device, and placement_policy={self.placement_policy!r} "
                "places them otherwise; state one of the two",
                "usage",
                "cpu_offload",
            )

    def _axes(self) -> tuple[str, ...]:
        return super()._axes() if self.dp_outside else ("pp", "dp", "tp", "sp")
