# SPDX-License-Identifier: Apache-2.0
"""The strategies: where parameters, gradients and optimizer states lie."""

from __future__ import annotations

import difflib
import warnings
from typing import Any

from castor._errors import Error

# Options of the systems whose scripts run here that change nothing, and why.
WITHOUT_EFFECT = {
    "shard_param_frac": "parameters are sharded among ranks, and there is one",
    "offload_param_frac": "the planner places parameters under device_budget and host_budget",
    "warmup_non_model_data_ratio": "the memory of activations is measured in the first steps",
    "steady_cuda_cap_ratio": "device_budget states the memory of the device",
    "gpu_margin_mem_ratio": "device_budget states the memory of the device",
    "enable_gradient_accumulation": "gradients add up over any number of backward passes",
    "max_prefetch": "the planner fetches ahead as far as there is room",
    "pin_memory": "host memory is pinned wherever the GPU copies from it",
    "chunk_config_dict": "chunks are laid out from the model and the budgets",
    "chunk_init_device": "chunks are laid out from the model and the budgets",
    "search_range_m": "chunks are laid out from the model and the budgets",
    "hidden_dim": "chunks are laid out from the model and the budgets",
    "min_chunk_size_m": "chunks are laid out from the model and the budgets",
    "strict_ddp_mode": "every placement has the same bits",
    "scatter_after_inference": "parameters are released as the budgets require",
    "enable_async_reduce": "gradients move beside the computing",
    "memstats": "the memory of activations is measured in the first steps",
    "verbose": "progress goes to logging.getLogger('castor')",
    "broadcast_buffers": "buffers are broadcast among ranks, and there is one",
    "bucket_cap_mb": "gradients are reduced among ranks, and there is one",
    "find_unused_parameters": "a parameter without a gradient is left alone",
    "check_reduction": "gradients are reduced among ranks, and there is one",
    "gradient_as_bucket_view": "gradients are taken as autograd finishes them",
    "static_graph": "the graph may change from step to step",
}


# The options of dynamic loss scaling, under fp16.
SCALER = ("initial_scale", "min_scale", "max_scale", "growth_factor", "backoff_factor", "growth_interval", "hysteresis")
ALL_PLUGINS = ("precision", "max_norm", "micro_batches", "force_outputs_fp32", "debug", *SCALER)


class Plugin:
    """A strategy of the core by its name, and the options of its training.

    precision: 'bf16', 'fp16' or 'fp32', the dtype that parameters get and the model computes in, with masters of fp32 in
    any case; None: that of the model. max_norm: the norm that gradients are clipped to in every step; 0: none.
    micro_batches: the backward passes of each step. Stated, updates begin during the last one, so steps are shorter; a
    further pass, and values of the optimizer that change between it and step(), are refused. None: any number.
    initial_scale to hysteresis: dynamic loss scaling under fp16. force_outputs_fp32: floating-point results of the model
    become fp32. debug: an access to a parameter that has no memory is found before it happens, at a cost for each
    operator.
    """

    name = "gemini"

    def __init__(
        self,
        *,
        precision: str | None = None,
        max_norm: float = 0.0,
        micro_batches: int | None = None,
        force_outputs_fp32: bool = False,
        debug: bool = False,
        **options: Any,
    ):
        self.precision = precision
        self.max_norm = float(max_norm)
        self.micro_batches = micro_batches or 0
        self.force_outputs_fp32 = force_outputs_fp32
        self.debug = debug
        self.scaler = {option: float(options.pop(option)) for option in SCALER if option in options}
        self.options = {}  # of the core
        for option, value in options.items():
            if value is None:
                continue
            if option in WITHOUT_EFFECT:
                warnings.warn(f"{type(self).__name__}({option}=…) has no effect: {WITHOUT_EFFECT[option]}", stacklevel=3)
            else:
                self.options[option] = text_of(value)


class TorchDDPPlugin(Plugin):
    """Everything stays on the model's device. Options: those of all plugins."""

    def __init__(self, **options: Any):
        known = (*ALL_PLUGINS, *WITHOUT_EFFECT)
        for option in options:
            if option not in known:
                nearest = difflib.get_close_matches(option, known, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                raise Error(f"TorchDDPPlugin has no option {option}{hint}", "usage", option)
        super().__init__(**options)


class GeminiPlugin(Plugin):
    """Everything moves between device, host and NVMe under budgets.

    device_budget, host_budget: bytes, or text as '8GiB'; None: no limit. nvme: folders of the NVMe tier. Further options:
    those of all plugins, and those that `castor plugins list -v` explains.
    """

    def __init__(
        self,
        placement_policy: str = "auto",
        precision: str | None = "bf16",
        device_budget: int | str | None = None,
        host_budget: int | str | None = None,
        nvme: list[str] | str | None = None,
        nvme_offload_fraction: float | None = None,
        **options: Any,
    ):
        super().__init__(
            placement_policy=placement_policy,
            precision=precision,
            device_budget=device_budget,
            host_budget=host_budget,
            nvme=nvme,
            nvme_offload_fraction=nvme_offload_fraction,
            **options,
        )


def text_of(value: Any) -> str:
    """An option as the core reads it: a comma within an element of a list is written with a backslash."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item).replace("\\", "\\\\").replace(",", "\\,") for item in value)
    return str(value)
