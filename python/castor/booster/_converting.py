# SPDX-License-Identifier: Apache-2.0
"""Weights that files have under other names and shapes than the model: transformers says which, and converts them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from torch import nn

from castor._buffers import is_of_hugging_face
from castor._errors import Error


@dataclass
class Source:
    """Of a tensor in the files, the name in the model of what it makes, alone or with others by a WeightConverter of
    transformers, in which it has the name `part`."""

    name: str
    makes: str
    converter: Any = None
    part: str | None = None


@dataclass
class Converted:
    """The first name in the model of what a converter makes, and of what."""

    name: str
    converter: Any
    sources: list[Source] = field(default_factory=list)

    def names(self) -> Iterator[str]:
        first, *others = self.converter.target_patterns
        yield self.name
        yield from (self.name.replace(first, other) for other in others)

    def read(self, read: Callable[[str], Any], model: nn.Module) -> Iterator[tuple[str, Any]]:
        converter = copy.deepcopy(self.converter)
        for source in self.sources:
            converter.add_tensor(self.name, source.name, source.part, functools.partial(read, source.name))
        try:
            made = converter.convert(self.name, model=model, config=model.config)
        except (RuntimeError, ValueError) as error:
            names = f"{self.sources[0].name} to {self.sources[-1].name}"
            raise Error(f"{self.name} cannot be made of {names} ({len(self.sources)} tensors): {error}", "usage") from error
        for name, values in made.items():
            yield name, values[0] if isinstance(values, list) else values


class Plan:
    """How tensors of the model are made of those in files.

    targets: the state_dict of the model, or, where the files have none of its adapters' layers, as it was before peft made
    those. unexpected: names in the files that the model has no use for.
    """

    def __init__(self, model: nn.Module, names: Iterable[str]):
        self.model = model
        names = list(names)
        has_adapters = any(".base_layer." in name for name in names)
        self.targets = model.state_dict(keep_vars=True) if has_adapters else beneath_adapters(model)
        self.read_as_they_are: list[Source] = []
        self.converted: dict[str, Converted] = {}
        self.unexpected: set[str] = set()
        for source in sources_of(model, names, self.targets):
            if source.makes not in self.targets:
                self.unexpected.add(source.name)
            elif source.converter is None:
                self.read_as_they_are.append(source)
            else:
                of_its_name = self.converted.setdefault(source.makes, Converted(source.makes, source.converter))
                of_its_name.sources.append(source)

    def given(self) -> set[str]:
        """The names in the model that get values."""
        made = (converted.names() for converted in self.converted.values())
        return {source.makes for source in self.read_as_they_are}.union(*made)

    def read_all(self, read: Callable[[str], Any]) -> Iterator[tuple[str, Any]]:
        """The names in the model, each with its values. No more is in memory than what one of them is made of."""
        for source in self.read_as_they_are:
            yield source.makes, read(source.name)
        for converted in self.converted.values():
            yield from converted.read(read, self.model)


def beneath_adapters(model: nn.Module) -> dict[str, Any]:
    """The state_dict of the model as it was before peft gave it adapters."""
    layers = [f"{name}." for name, module in model.named_modules() if name and isinstance(getattr(module, "base_layer", None), nn.Module)]
    targets = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if layer := next((layer for layer in layers if name.startswith(layer)), None):
            _, is_of_base, rest = name.removeprefix(layer).rpartition("base_layer.")
            if is_of_base:
                targets[layer + rest] = value
        else:
            targets[name] = value
    return targets


def sources_of(model: nn.Module, names: Iterable[str], targets: dict[str, Any]) -> list[Source]:
    if is_of_hugging_face(model):
        try:
            return [*sources_in_transformers(model, names, targets)]
        except ImportError:  # before 5, names in files are those of the model
            pass
    return [Source(name, name) for name in names]


def sources_in_transformers(model: nn.Module, names: Iterable[str], targets: dict[str, Any]) -> Iterator[Source]:
    """As from_pretrained renames them."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

    mapping = get_model_conversion_mapping(model)
    renamings = [each for each in mapping if isinstance(each, WeightRenaming)]
    converters = [each for each in mapping if isinstance(each, WeightConverter)]
    by_part = {part: converter for converter in converters for part in converter.source_patterns}
    for name in sorted(names, key=dot_natural_key):
        makes, part = rename_source_key(name, renamings, converters, model.base_model_prefix, targets)
        if makes not in targets and name in targets:
            makes, part = name, None
        yield Source(name, makes, by_part.get(part), part)


def without_ignored(model: nn.Module, unexpected: set[str]) -> set[str]:
    """Without those that from_pretrained passes over, as buffers that older versions have saved."""
    return adjusted(model, set(), unexpected).unexpected_keys


def without_optional(model: nn.Module, missing: set[str]) -> set[str]:
    """Without those that from_pretrained does not miss."""
    return adjusted(model, missing, set()).missing_keys


def adjusted(model: nn.Module, missing: set[str], unexpected: set[str]) -> SimpleNamespace:
    found = SimpleNamespace(missing_keys=missing, unexpected_keys=unexpected)
    if hasattr(model, "_adjust_missing_and_unexpected_keys"):
        model._adjust_missing_and_unexpected_keys(found)
    return found
