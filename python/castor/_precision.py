# SPDX-License-Identifier: Apache-2.0
"""The dtype that a model computes in, and the dtypes of what goes in and comes out."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils._pytree import tree_map

from castor._errors import Error

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_of(precision: str) -> torch.dtype:
    if precision not in DTYPES:
        raise Error(f"precision takes one of {', '.join(DTYPES)}, not {precision!r}", "usage", "precision")
    return DTYPES[precision]


def cast_inputs(model: nn.Module, dtype: torch.dtype) -> None:
    """Floating-point inputs of the model get its dtype."""

    def cast(tensor):
        return tensor.to(dtype) if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_pre_hook(lambda _, args, kwargs: tree_map(cast, (args, kwargs)), with_kwargs=True, prepend=True)


def cast_outputs_to_fp32(model: nn.Module) -> None:
    def cast(tensor):
        return tensor.float() if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_hook(lambda _, args, result: tree_map(cast, result))
