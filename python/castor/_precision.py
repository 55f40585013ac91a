# SPDX-License-Identifier: Apache-2.0
"""The dtype that a model computes in, and the dtypes of what goes in and comes out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from castor._errors import Error, nearest

if TYPE_CHECKING:
    from castor.booster._plugin import Plugin

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Of each option for the scaling of the loss: what it takes, in words, and which values of its type these are.
SCALING = {
    "initial_scale": ("a finite number above 0", lambda value: 0 < value < math.inf),
    "min_scale": ("a finite number above 0", lambda value: 0 < value < math.inf),
    "max_scale": ("a finite number above 0", lambda value: 0 < value < math.inf),
    "growth_factor": ("a finite number above 1", lambda value: 1 < value < math.inf),
    "backoff_factor": ("a number above 0 and below 1", lambda value: 0 < value < 1),
    "growth_interval": ("a whole number from 1", lambda value: value >= 1),
    "hysteresis": ("a whole number from 1", lambda value: value >= 1),
}


def precision_of(given: Any, option: str) -> str:
    """The name of a precision that `option` gives by its name or as a dtype."""
    for name, dtype in DTYPES.items():
        if isinstance(given, (str, torch.dtype)) and given in (name, dtype):
            return name
    raise Error(f"{option} takes one of {', '.join(DTYPES)}, not {given!r}{nearest(given, DTYPES)}", "usage", option)


def dtype_of(precision: str) -> torch.dtype:
    return DTYPES[precision_of(precision, "precision")]


def connect_precision(model: nn.Module, plugin: Plugin) -> None:
    """What goes into the model, and comes out of it, in the dtypes that the plugin says."""
    if plugin.cast_inputs and plugin.precision in ("bf16", "fp16"):
        cast_inputs(model, dtype_of(plugin.precision))
    if plugin.force_outputs_fp32:
        cast_outputs_to_fp32(model)


def cast_inputs(model: nn.Module, dtype: torch.dtype) -> None:
    """Floating-point inputs of the model get its dtype."""

    def cast(tensor):
        return tensor.to(dtype) if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_pre_hook(lambda _, args, kwargs: tree_map(cast, (args, kwargs)), with_kwargs=True, prepend=True)


def cast_outputs_to_fp32(model: nn.Module) -> None:
    def cast(tensor):
        return tensor.float() if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_hook(lambda _, args, result: tree_map(cast, result))
