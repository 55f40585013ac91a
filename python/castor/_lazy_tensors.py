# SPDX-License-Identifier: Apache-2.0
"""Tensors without memory that programs use as those of an eager model: what asks for values gets them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from castor._errors import Error
from castor._recording import META, Recorder
from castor._versions import Read, read_of, values_of, version_of

CPU = torch.device("cpu")
Tensor = torch.Tensor
# What a tensor answers as if it had memory.
FACTS: dict[Callable, Callable[[torch.device], object]] = {
    Tensor.is_meta.__get__: lambda device: False,
    Tensor.is_cpu.__get__: lambda device: device.type == "cpu",
    Tensor.is_cuda.__get__: lambda device: device.type == "cuda",
    Tensor.device.__get__: lambda device: device,
}
READS = (Tensor.numpy, Tensor.__array__, Tensor.tolist, Tensor.__repr__, Tensor.__format__, Tensor.__reduce_ex__)
ARRAYS = (Tensor.numpy, Tensor.__array__)


class Building:
    """Whether a LazyInitContext is open in the program."""

    is_open = False


def check_closed() -> None:
    if Building.is_open:
        raise Error("the model gets its values after the block of LazyInitContext; do it there", "usage")


class AsIfReal(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in FACTS and (version := version_of(args[0])):
            return FACTS[func](version.device)
        return called(func, args, kwargs or {})


def called(func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    version = version_of(args[0]) if args else None
    with torch._C.DisableTorchFunctionSubclass():
        if version is None:
            return func(*args, **kwargs)
        if func in READS:
            values = values_of(args[0]).requires_grad_(args[0].requires_grad)
            return read_only(func, func(values, *args[1:], **kwargs))
        if func in (Tensor.cpu, Tensor.to):
            where = (CPU,) if func is Tensor.cpu else ()
            return moved(args[0], version.device, where + args[1:], kwargs)
        return func(*args, **kwargs)


def read_only(func: Callable, values: Any) -> Any:
    """An array would not write to the tensor, as that of an eager one does."""
    if func in ARRAYS:
        values.flags.writeable = False
    return values


def moved(tensor: torch.Tensor, device: torch.device, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """tensor.to(…), which is on `device` by what it is to hold, and for torch on the meta device."""

    def as_torch_has_it(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return as_torch_has_it(value.device), value.dtype
        is_device = isinstance(value, (str, torch.device)) or type(value) is int
        return META if is_device and torch.device(value) == device else value

    flat: list[object] = []
    for value in args:
        of_value = as_torch_has_it(value)
        flat += of_value if isinstance(of_value, tuple) else (of_value,)
    return tensor.to(*flat, **{name: as_torch_has_it(value) for name, value in kwargs.items()})


@contextlib.contextmanager
def recording(device: torch.device = CPU) -> Iterator[None]:
    with Recorder(device), AsIfReal():
        yield


class LazyTensor(Tensor):
    """A tensor outside of the context that has built it. It says itself that it is on the meta device."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == Tensor.is_meta.__get__ and sys._getframe(1).f_globals.get("__name__") == "torch.nn.init":
            return False  # as that module leaves tensors of the meta device as they are
        if func in FACTS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args)
        if func == Tensor.data_ptr:
            raise Error("the tensor has no memory yet; boost the model, or call LazyInitContext.materialize(model)", "usage")
        with recording():
            return tree_map(as_lazy, called(func, args, kwargs or {}))

    def __deepcopy__(self, memo: dict) -> Tensor:
        return memo.setdefault(id(self), self.detach().clone())


class LazyParameter(nn.Parameter):
    """A parameter of a lazily built model, until its values are there."""

    __torch_function__ = LazyTensor.__torch_function__

    def __deepcopy__(self, memo: dict) -> nn.Parameter:
        if id(self) not in memo:
            copied = self.detach().clone()
            copied.__class__ = Tensor
            memo[id(self)] = nn.Parameter(copied, self.requires_grad)
            memo[id(self)].__class__ = LazyParameter
        return memo[id(self)]


def as_lazy(value: object) -> object:
    if type(value) is Tensor and version_of(value):
        value.__class__ = LazyTensor
    return value


@contextlib.contextmanager
def built_lazily(parameters: Iterable[nn.Parameter]) -> Iterator[dict[nn.Parameter, Read]]:
    """What they are to hold, of those that were built lazily. Within it they are plain parameters, and so afterwards unless
    there was an exception."""
    check_closed()
    reads = {parameter: read_of(parameter) for parameter in parameters if version_of(parameter)}
    lazy = [parameter for parameter in reads if type(parameter) is LazyParameter]
    for parameter in lazy:
        parameter.__class__ = nn.Parameter
    try:
        yield reads
    except BaseException:
        for parameter in lazy:
            parameter.__class__ = LazyParameter
        raise
