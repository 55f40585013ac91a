# SPDX-License-Identifier: Apache-2.0
"""What a parameter's memory is like, which its states follow."""

from __future__ import annotations

import torch
from torch import nn

from castor._access import place_of
from castor._errors import Error
from castor._precision import DTYPES

Layout = tuple[torch.dtype, torch.Size, tuple[int, ...], torch.device]
PARTS = ("dtype", "sizes", "strides", "device")


def layout_of(parameter: nn.Parameter) -> Layout:
    return parameter.dtype, parameter.shape, parameter.stride(), parameter.device


def check(parameter: nn.Parameter) -> None:
    if parameter.dtype not in DTYPES.values():
        raise Error(f"parameters are fp32, fp16 or bf16, not {parameter.dtype}", "usage")
    if parameter.is_meta:
        raise Error(
            "a parameter is on the meta device and has no memory; give the model to a Booster, or memory to it", "usage"
        )
    if torch.empty_like(parameter, device="meta").stride() != parameter.stride():
        raise Error(f"a parameter of sizes {tuple(parameter.shape)} has gaps or overlaps; give it memory of its own", "usage")


def check_unchanged(parameter: nn.Parameter, before: Layout | None) -> None:
    """before: of the first step; None: the parameter was not there."""
    if before is None:
        raise Error("a parameter was added after the optimizer's first step; make a new optimizer of all of them", "usage")
    if place_of(parameter) is not None:
        raise Error("a parameter belongs to a model that was boosted with another optimizer, which has its gradient", "usage")
    now = layout_of(parameter)
    for part, was, became in () if now == before else zip(PARTS, before, now):
        if was != became and not (part == "strides" and same_order(parameter.shape, was, became)):
            raise Error(
                f"the {part} of a parameter changed from {words(was)} to {words(became)} since the optimizer's first step, and "
                "its states do not follow; call state_dict() before such a change, and load it into a new optimizer after it",
                "usage",
            )


def same_order(sizes: torch.Size, strides: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Strides of dimensions of size 1 say nothing."""
    return all(stride == other for size, stride, other in zip(sizes, strides, others) if size != 1)


def check_gradient(parameter: nn.Parameter, grad: torch.Tensor) -> None:
    if grad.is_sparse:
        raise Error(f"a gradient of sizes {tuple(grad.shape)} is sparse; make its embedding dense (sparse=False)", "usage")
    if grad.dtype not in DTYPES.values():
        raise Error(f"gradients are fp32, fp16 or bf16, not {grad.dtype}", "usage")
    if grad.shape != parameter.shape:
        raise Error(f"a gradient has sizes {tuple(grad.shape)}, and its parameter {tuple(parameter.shape)}", "usage")


def words(part: object) -> str:
    return str(tuple(part) if isinstance(part, torch.Size) else part)
