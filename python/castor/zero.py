# SPDX-License-Identifier: Apache-2.0
"""The wrappers of older scripts: a pair of calls in place of a Booster. Model and optimizer stay the same objects."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from castor._boost import boost_pair
from castor._errors import Error
from castor.booster._options import check_names
from castor.booster._plugin import SCALER, Plugin
from castor.booster.plugin import GeminiPlugin, LowLevelZeroPlugin

__all__ = ["zero_model_wrapper", "zero_optim_wrapper"]

# Options under the names that they have here.
RENAMED = {"search_range_mb": "search_range_m", "min_chunk_size_mb": "min_chunk_size_m", "clip_grad_norm": "max_norm"}
ELEMENTS_PER_M = 1 << 20
# Of optim_config, where zero_stage is 1 or 2.
OF_LOW_LEVEL_ZERO = ("reduce_bucket_size", "overlap_communication", "communication_dtype", "partition_grad")


def zero_model_wrapper(
    model: nn.Module, zero_stage: int = 3, gemini_config: dict[str, Any] | None = None, verbose: bool = False
) -> nn.Module:
    """The model, which zero_optim_wrapper boosts: under GeminiPlugin with zero_stage=3, else under LowLevelZeroPlugin in
    the dtype that it has. gemini_config: options of GeminiPlugin, and the device that the model is on."""
    if zero_stage not in (1, 2, 3):
        raise Error(f"zero_stage takes one of 1, 2, 3, not {zero_stage!r}", "usage", "zero_stage")
    config = {RENAMED.get(name, name): value for name, value in (gemini_config or {}).items()}
    device = device_of(model, config.pop("device", None))
    if zero_stage == 3:
        check_names(GeminiPlugin, config)
        vars(model)["castor_zero"] = GeminiPlugin, {"verbose": verbose, **config}, device
    else:
        vars(model)["castor_zero"] = LowLevelZeroPlugin, {"verbose": verbose, "stage": zero_stage, "precision": None}, device
    return model


def device_of(model: nn.Module, device: torch.device | str | int | None) -> torch.device | None:
    """Where a model on the meta device is to train; others are there already."""
    first = next(model.parameters(), None)
    if device is None or first is None:
        return None
    wanted = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    if first.is_meta and wanted.type != "meta":
        return wanted
    if wanted.type != first.device.type or wanted.index not in (None, first.device.index):
        raise Error(f"gemini_config has device {wanted}, and the model is on {first.device}; move it first", "usage", "device")
    return None


def zero_optim_wrapper(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    initial_scale: float = 2**16,
    growth_factor: float = 2,
    backoff_factor: float = 0.5,
    growth_interval: int = 1000,
    hysteresis: int = 2,
    min_scale: float = 1,
    max_scale: float = 2**32,
    max_norm: float = 0.0,
    norm_type: float = 2.0,
    optim_config: dict[str, Any] | None = None,
    verbose: bool = False,
) -> torch.optim.Optimizer:
    """Boosts the pair, and returns the optimizer, which has backward(loss) from then on. optim_config: further options
    of the plugin, which go before the other arguments."""
    if "castor_zero" not in vars(model):
        raise Error("the model was not given to zero_model_wrapper; do that first", "usage")
    plugin_class, of_model, device = vars(model)["castor_zero"]
    scaler = (initial_scale, min_scale, max_scale, growth_factor, backoff_factor, growth_interval, hysteresis)
    options = {
        **of_model,
        **dict(zip(SCALER, scaler, strict=True)),
        "max_norm": max_norm,
        "norm_type": norm_type,
        "verbose": verbose or of_model["verbose"],
        **renamed(plugin_class, optim_config or {}),
    }
    boost_pair(model, optimizer, plugin_class(**options), device)
    del vars(model)["castor_zero"]
    return optimizer


def renamed(plugin_class: type[Plugin], optim_config: dict[str, Any]) -> dict[str, Any]:
    options = {RENAMED.get(name, name): value for name, value in optim_config.items()}
    if plugin_class is GeminiPlugin:
        for name in (name for name in OF_LOW_LEVEL_ZERO if name in options):
            del options[name]
            warnings.warn(f"optim_config has {name}, which has no effect with zero_stage=3: chunks are moved", stacklevel=3)
        return options
    if "reduce_bucket_size" in options:
        options["reduce_bucket_size_in_m"] = options.pop("reduce_bucket_size") / ELEMENTS_PER_M
    if "partition_grad" in options:
        options["stage"] = 2 if options.pop("partition_grad") else 1
    return options
