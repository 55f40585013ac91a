# SPDX-License-Identifier: Apache-2.0
"""The units of a model: the modules whose parameters are fetched and released together."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from castor._errors import Error, nearest
from castor._stored import all_stored

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


@dataclass(frozen=True)
class Unit:
    """A module, and the parameters that it needs: those of all modules within a block, its own alone of any other module;
    and those of the units around it, which are in use at the same time."""

    name: str
    owner: weakref.ref[nn.Module]  # whose hooks have the unit, so that models end where their last reference does
    parameters: tuple[torch.Tensor, ...]  # as they are stored

    @property
    def module(self) -> nn.Module | None:
        return self.owner()


def find_units(model: nn.Module, chosen: Sequence[str | type[nn.Module]] | None = None) -> list[Unit]:
    """The units of `model` in the order of named_modules: its blocks, and each module with parameters outside of them.

    chosen: the blocks by their names or classes; None: the innermost that repeat.
    """
    blocks = innermost_blocks(model) if chosen is None else chosen_blocks(model, chosen)
    return list(units_within("", model, (), blocks, set()))


def units_within(
    name: str, module: nn.Module, around: tuple[torch.Tensor, ...], blocks: set[nn.Module], visited: set[nn.Module]
) -> Iterator[Unit]:
    """around: the parameters of the units around the module."""
    if module in visited:
        return
    visited.add(module)
    is_block = module in blocks
    own = tuple(all_stored(module.parameters(recurse=is_block)))
    if own:
        around = tuple(dict.fromkeys((*own, *around)))
        yield Unit(name, weakref.ref(module), around)
    for child_name, child in () if is_block else module.named_children():
        yield from units_within(f"{name}.{child_name}" if name else child_name, child, around, blocks, visited)


def as_lists(
    names: dict[torch.Tensor, str], units: Sequence[Unit]
) -> tuple[list[tuple[str, torch.Tensor]], list[tuple[str, list[int]]]]:
    """As the core takes them: the parameters by name, and of each unit its name, the class where it is the model itself, and
    the positions of its parameters."""
    positions = {parameter: i for i, parameter in enumerate(names)}
    of_units = [(unit.name or type(unit.module).__name__, [positions[parameter] for parameter in unit.parameters]) for unit in units]
    return [(name, parameter) for parameter, name in names.items()], of_units


def chosen_blocks(model: nn.Module, chosen: Sequence[str | type[nn.Module]]) -> set[nn.Module]:
    modules = dict(model.named_modules())
    blocks: set[nn.Module] = set()
    for one in [chosen] if isinstance(chosen, (str, type)) else chosen:
        if isinstance(one, type):
            found = {module for module in modules.values() if isinstance(module, one)}
        else:
            found = {modules[one]} if one in modules else set()
        if not found:
            name = one.__name__ if isinstance(one, type) else one
            raise Error(f"units names {name}, and the model has no such module{nearest(name, modules)}", "usage", "units")
        blocks |= found
    return blocks


def innermost_blocks(model: nn.Module) -> set[nn.Module]:
    """Modules of several whose class repeats in a container, and that hold no other such module."""
    containers = (module for module in model.modules() if isinstance(module, CONTAINERS))
    repeated = {block for container in containers for block in repeats(container)}
    return {block for block in repeated if not any(inner in repeated for inner in block.modules() if inner is not block)}


def repeats(container: nn.Module) -> list[nn.Module]:
    children = [child for child in container.children() if any(True for _ in child.children()) and has_parameters(child)]
    n_of_class = Counter(type(child) for child in children)
    return [child for child in children if n_of_class[type(child)] > 1]


def has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None
