# SPDX-License-Identifier: Apache-2.0
"""The units of a model: the modules whose parameters are fetched and released together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import nn

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


@dataclass(frozen=True)
class Unit:
    """A module, and the parameters that it needs: those of all modules within a block, its own alone of any other module;
    and those of the units around it, which are in use at the same time."""

    name: str
    module: nn.Module
    parameters: tuple[nn.Parameter, ...]


def find_units(model: nn.Module) -> list[Unit]:
    """The units of `model` in the order of named_modules: its innermost blocks, and each module with parameters outside
    of them."""
    blocks = innermost_blocks(model)
    units: list[Unit] = []

    def visit(name: str, module: nn.Module, around: tuple[nn.Parameter, ...]) -> None:
        if module in visited:
            return
        visited.add(module)
        is_block = module in blocks
        own = tuple(module.parameters(recurse=is_block))
        if own:
            around = tuple(dict.fromkeys((*own, *around)))
            units.append(Unit(name, module, around))
        for child_name, child in () if is_block else module.named_children():
            visit(f"{name}.{child_name}" if name else child_name, child, around)

    visited: set[nn.Module] = set()
    visit("", model, ())
    return units


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
