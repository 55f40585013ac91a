# SPDX-License-Identifier: Apache-2.0
"""What bitsandbytes keeps beside parameters that are bytes: scales of blocks or rows, and what the bytes stand for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from castor._errors import Error
from castor._stored import is_wrapper


def is_quantized(parameter: nn.Parameter) -> bool:
    """Also one of a class of its own, as torchao's."""
    return is_wrapper(parameter) or hasattr(parameter, "quant_state") or hasattr(parameter, "SCB")


def check_is_quantized(name: str, parameter: nn.Parameter) -> None:
    """bitsandbytes makes bytes of a parameter when it is moved first."""
    waits_for_4_bit = hasattr(parameter, "quant_state") and not hasattr(parameter.quant_state, "absmax")
    waits_for_8_bit = hasattr(parameter, "SCB") and not parameter.has_fp16_weights and parameter.dtype != torch.int8
    if waits_for_4_bit or waits_for_8_bit:
        kind = type(parameter).__name__
        raise Error(f"parameter {name} is of class {kind} and was not quantized yet, which moving it does: model.to('cpu')", "usage")


def dtypes_of_biases(model: nn.Module) -> dict[nn.Parameter, torch.dtype]:
    """Those that layers of bitsandbytes would give their biases in their first forward pass."""
    found = {}
    for module in model.modules():
        bias, weight = module._parameters.get("bias"), module._parameters.get("weight")
        if bias is not None and hasattr(weight, "quant_state") and isinstance(getattr(module, "compute_dtype", None), torch.dtype):
            found[bias] = module.compute_dtype
    return found


class Beside:
    """Moves it to the device of the parameters, where it stays: it is small."""

    def __init__(self) -> None:
        self.undoing: list[Callable[[], None]] = []

    def move(self, model: nn.Module, device: torch.device) -> None:
        for module in model.modules():
            if getattr(module, "support_avx512bf16_for_cpu", False):
                self.change(module, support_avx512bf16_for_cpu=False)  # with which evaluations replace the weight
            for parameter in own_parameters(module):
                if hasattr(getattr(parameter, "quant_state", None), "absmax"):
                    self.move_state(parameter.quant_state, device)
                for holder in holders(module, parameter):
                    self.change(holder, CB=parameter.data)
                    if holder.SCB is not None:
                        self.change(holder, SCB=holder.SCB.to(device))

    def undo(self) -> None:
        while self.undoing:
            self.undoing.pop()()

    def move_state(self, state: Any, device: torch.device) -> None:
        before = state.absmax.device
        if before != device:
            self.undoing.append(lambda: state.to(before))
            state.to(device)

    def change(self, holder: Any, **values: Any) -> None:
        before = {name: getattr(holder, name) for name in values}
        self.undoing.append(lambda: vars(holder).update(before))
        for name, value in values.items():
            setattr(holder, name, value)


def own_parameters(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module._parameters.values() if parameter is not None]


def same_bytes(model: nn.Module, copies: dict[int, Any]) -> dict[int, torch.Tensor]:
    """By the ids of tensors that are the same bytes as a parameter: those of the parameter's copy, as copy.deepcopy takes them."""
    found = {}
    for module in model.modules():
        for parameter in own_parameters(module):
            if id(parameter) in copies:
                found.update({id(holder.CB): copies[id(parameter)].data for holder in holders(module, parameter)})
    return found


def holders(module: nn.Module, parameter: nn.Parameter) -> list[Any]:
    """Of an 8-bit parameter the objects whose CB is the same bytes: itself before the first forward pass, then its layer's state."""
    both = (parameter, getattr(module, "state", None)) if hasattr(parameter, "SCB") else ()
    return [holder for holder in both if isinstance(getattr(holder, "CB", None), torch.Tensor)]


def scales_of(model: nn.Module) -> list[torch.Tensor]:
    return [tensor.detach() for module in model.modules() for tensor in scales_in(module) if isinstance(tensor, torch.Tensor)]


def scales_in(module: nn.Module) -> Iterator[Any]:
    for parameter in own_parameters(module):
        state = getattr(parameter, "quant_state", None)
        while hasattr(state, "absmax"):
            yield from (state.absmax, state.code, getattr(state, "offset", None))
            state = getattr(state, "state2", None)
        yield from (holder.SCB for holder in holders(module, parameter))


def digest_of_scales(scales: list[torch.Tensor]) -> str | None:
    """As they are now: loading a state_dict may write them. None where there are none."""
    digest = hashlib.sha256()
    for tensor in scales:
        digest.update(tensor.to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest() if scales else None
