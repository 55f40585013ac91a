# SPDX-License-Identifier: Apache-2.0
"""Tensors that have memory: a parameter is one, or consists of several where its class wraps others, as torchao's do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_wrapper


def stored(parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """By what follows the parameter's name: the parameter itself, or the tensors within it, at any depth."""
    if not is_wrapper(parameter):
        return {"": parameter}
    names, _ = parameter.__tensor_flatten__()
    return {f".{name}{rest}": tensor for name in names for rest, tensor in stored(getattr(parameter, name)).items()}


def all_stored(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor for parameter in parameters for tensor in stored(parameter).values()]


def names_of_stored(model: nn.Module) -> dict[torch.Tensor, str]:
    return {tensor: name + rest for name, parameter in model.named_parameters() for rest, tensor in stored(parameter).items()}


def rebuilt(parameter: torch.Tensor, other: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """One like it, of other tensors in place of its stored ones."""
    if not is_wrapper(parameter):
        return other(parameter)
    names, context = parameter.__tensor_flatten__()
    inner = {name: rebuilt(getattr(parameter, name), other) for name in names}
    return type(parameter).__tensor_unflatten__(inner, context, parameter.shape, parameter.stride())


def difference(parameter: torch.Tensor, values: torch.Tensor) -> str | None:
    """Why `values` cannot become those of the parameter; None where they can. Plain ones may have any dtype."""
    if not isinstance(values, torch.Tensor):
        return f"is a {type(values).__name__}, and the parameter a tensor"
    if type(values) is not type(parameter) and (is_wrapper(values) or is_wrapper(parameter)):
        return f"is of class {type(values).__name__}, and the parameter of {type(parameter).__name__}"
    if values.shape != parameter.shape:
        return f"has sizes {tuple(values.shape)}, and the parameter {tuple(parameter.shape)}"
    if not is_wrapper(parameter):
        return None
    same = values.__tensor_flatten__() == parameter.__tensor_flatten__() and all(
        (new.shape, new.dtype) == (kept.shape, kept.dtype) for new, kept in zip(stored(values).values(), stored(parameter).values())
    )
    return None if same else "was quantized in another way than the parameter"
