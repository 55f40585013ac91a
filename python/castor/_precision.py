# SPDX-License-Identifier: Apache-2.0
"""The dtype that a model computes in: its parameters are changed in place, and masters begin with the values they had."""

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


class Cast:
    """The parameters of a model in another dtype: the same objects, with memory of their own that has no values yet."""

    def __init__(self, model: nn.Module, dtype: torch.dtype):
        self.first_values: dict[nn.Parameter, torch.Tensor] = {}
        self.buffers: list[tuple[nn.Module, str, torch.Tensor]] = []
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.dtype != dtype:
                self.first_values[parameter] = parameter.data
        for module in model.modules():
            if any(parameter in self.first_values for parameter in module._parameters.values()):
                self.buffers += [
                    (module, name, buffer)
                    for name, buffer in module._buffers.items()
                    if buffer is not None and buffer.is_floating_point() and name not in module._non_persistent_buffers_set
                ]
        for parameter, values in self.first_values.items():
            parameter.data = torch.empty_like(values, dtype=dtype)
        for module, name, buffer in self.buffers:
            module._buffers[name] = buffer.to(dtype)

    def undo(self) -> None:
        for parameter, values in self.first_values.items():
            parameter.data = values
        for module, name, buffer in self.buffers:
            module._buffers[name] = buffer


def cast_inputs(model: nn.Module, dtype: torch.dtype) -> None:
    """Floating-point inputs of the model get its dtype."""

    def cast(tensor):
        return tensor.to(dtype) if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_pre_hook(lambda _, args, kwargs: tree_map(cast, (args, kwargs)), with_kwargs=True, prepend=True)


def cast_outputs_to_fp32(model: nn.Module) -> None:
    def cast(tensor):
        return tensor.float() if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor

    model.register_forward_hook(lambda _, args, result: tree_map(cast, result))
