# SPDX-License-Identifier: Apache-2.0
"""What bitsandbytes keeps beside parameters that are bytes: scales of blocks or rows, and what the bytes stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def is_quantized(parameter: nn.Parameter) -> bool:
    """Also one of a class of its own, as torchao's."""
    return is_traceable_wrapper_subclass(parameter) or hasattr(parameter, "quant_state") or hasattr(parameter, "SCB")


def move_beside(model: nn.Module, device: torch.device) -> list[Callable[[], None]]:
    """To the device, where it stays: it is small. Its parameters are there already. Returns what undoes it."""
    undo: list[Callable[[], None]] = []
    for module in model.modules():
        if getattr(module, "support_avx512bf16_for_cpu", False):
            change(module, undo, support_avx512bf16_for_cpu=False)  # with which evaluations replace the weight
        for parameter in module._parameters.values():
            if parameter is None:
                continue
            if hasattr(getattr(parameter, "quant_state", None), "absmax"):
                move_state(parameter.quant_state, device, undo)
            for holder in holders(module, parameter):
                change(holder, undo, CB=parameter.data)
                if holder.SCB is not None:
                    change(holder, undo, SCB=holder.SCB.to(device))
    return undo


def same_bytes(model: nn.Module, copies: dict[int, Any]) -> dict[int, torch.Tensor]:
    """By the ids of tensors that are the same bytes as a parameter: those of the parameter's copy, as copy.deepcopy takes them."""
    found = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None and id(parameter) in copies:
                found.update({id(holder.CB): copies[id(parameter)].data for holder in holders(module, parameter)})
    return found


def holders(module: nn.Module, parameter: nn.Parameter) -> list[Any]:
    """Of an 8-bit parameter the objects whose CB is the same bytes: itself before the first forward pass, then its layer's state."""
    both = (parameter, getattr(module, "state", None)) if hasattr(parameter, "SCB") else ()
    return [holder for holder in both if isinstance(getattr(holder, "CB", None), torch.Tensor)]


def move_state(state: Any, device: torch.device, undo: list[Callable[[], None]]) -> None:
    before = state.absmax.device
    if before != device:
        state.to(device)
        undo.append(lambda: state.to(before))


def change(holder: Any, undo: list[Callable[[], None]], **values: Any) -> None:
    before = {name: getattr(holder, name) for name in values}
    undo.append(lambda: vars(holder).update(before))
    for name, value in values.items():
        setattr(holder, name, value)
