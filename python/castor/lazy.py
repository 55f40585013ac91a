# SPDX-License-Identifier: Apache-2.0
"""Models that are built without memory, and get the values of an eager model when they are boosted."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
from types import SimpleNamespace, TracebackType

import torch
from torch import nn
from torch.nn.modules import module as hooks

from castor._errors import Error
from castor._lazy_tensors import Building, LazyParameter, check_closed, recording
from castor._placing import give
from castor._versions import Layout, Version, evaluate, read_of, version_of

__all__ = ["LazyInitContext"]

OF_ALL_MODULES = frozenset(vars(nn.Module()))
MOST_DEPTH = 8  # of containers within each other: more are a graph


class LazyInitContext:
    """Within it modules are built with parameters on the meta device; how each is initialised is recorded. Booster.boost
    gives them the values that they would have, one after the other, and materialize() all at once.

    Random numbers are drawn, and dropped: generators go on as after an eager build. Buffers get their values when the
    context ends. What asks for values, as tensor.item(), gets them at once. default_device: where tensors are built that
    name no device; None: as torch has it.
    """

    def __init__(self, default_device: torch.device | str | int | None = None):
        self.device = torch.device("cpu" if default_device is None else default_device)
        self.stack = contextlib.ExitStack()
        self.modules: set[nn.Module] = set()

    def __enter__(self) -> LazyInitContext:
        if Building.is_open:
            raise Error("a LazyInitContext is open already", "usage")
        for register in (
            hooks.register_module_module_registration_hook,
            hooks.register_module_parameter_registration_hook,
            hooks.register_module_buffer_registration_hook,
        ):
            self.stack.callback(register(self.registered).remove)
        if self.device.type != "cpu":
            self.stack.enter_context(self.device)
        self.stack.enter_context(recording(self.device))
        Building.is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        Building.is_open = False
        self.stack.close()
        if kind is None:
            finish({inner for module in self.modules for inner in module.modules()})
        self.modules.clear()

    def registered(self, module: nn.Module, name: str, value: object) -> None:
        self.modules.add(module)

    @staticmethod
    def materialize(module: nn.Module, verbose: bool = False) -> nn.Module:
        """The module, whose parameters get their values, in memory."""
        check_closed()
        made = Made()
        for parameter in module.parameters():
            if version_of(parameter):
                made.fill(parameter)
        for inner in module.modules():
            made.replace_attributes(inner)
        return module


class Made:
    """Tensors with memory in place of those without, and the other way round: what shares memory goes on to share it."""

    def __init__(self) -> None:
        self.storages: dict[torch.UntypedStorage, torch.UntypedStorage] = {}
        self.tensors: dict[torch.Tensor, torch.Tensor] = {}

    def tensor(self, lazy: torch.Tensor) -> torch.Tensor:
        if lazy not in self.tensors:
            read = read_of(lazy)
            storage = lazy.untyped_storage()
            if storage not in self.storages:
                self.storages[storage] = evaluate([read])[0].untyped_storage()
            self.tensors[lazy] = read.layout.over(self.storages[storage])
        return self.tensors[lazy]

    def fill(self, parameter: nn.Parameter) -> None:
        values = self.tensor(parameter)
        if type(parameter) is LazyParameter:
            parameter.__class__ = nn.Parameter
        give(parameter, values)

    def lazily(self, parameter: nn.Parameter) -> None:
        """One of values that existed is to hold them."""
        if not parameter.is_meta:
            values = parameter.data.untyped_storage()
            if values not in self.storages:
                self.storages[values] = torch.UntypedStorage(values.nbytes(), device="meta")
                self.storages[values].castor_version = Version(values.device, values)
            give(parameter, Layout.of(parameter).over(self.storages[values]))
        if version_of(parameter):
            parameter.__class__ = LazyParameter

    def replace_attributes(self, module: nn.Module) -> None:
        """Buffers, and other tensors that are attributes or in lists, tuples, dictionaries and dataclasses within them."""
        for attributes in (module._buffers, vars(module)):
            for name, value in list(attributes.items()):
                if name not in OF_ALL_MODULES and (replaced := self.replaced(value)) is not value:
                    attributes[name] = replaced

    def replaced(self, value: object, depth: int = 0) -> object:
        """`value` itself where nothing in it is replaced; a dataclass is changed in place."""
        if is_lazy(value):
            return self.tensor(value)
        if depth == MOST_DEPTH:
            return value
        if type(value) in (list, tuple):
            made = [self.replaced(each, depth + 1) for each in value]
            return value if all(map(operator.is_, made, value)) else type(value)(made)
        if type(value) is dict:
            made = {key: self.replaced(each, depth + 1) for key, each in value.items()}
            return value if all(made[key] is value[key] for key in value) else made
        if isinstance(value, SimpleNamespace) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            for name, each in list(getattr(value, "__dict__", {}).items()):
                if (replaced := self.replaced(each, depth + 1)) is not each:
                    vars(value)[name] = replaced
        return value


def is_lazy(value: object) -> bool:
    return version_of(value) is not None and not isinstance(value, nn.Parameter)


def finish(modules: set[nn.Module]) -> None:
    made = Made()
    for module in modules:
        made.replace_attributes(module)
        for parameter in module._parameters.values():
            if type(parameter) is nn.Parameter:
                made.lazily(parameter)
            elif parameter is not None and version_of(parameter) and type(parameter) is not LazyParameter:
                made.fill(parameter)  # another class, which may need its values
