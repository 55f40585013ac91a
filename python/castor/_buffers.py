# SPDX-License-Identifier: Apache-2.0
"""Buffers of models that were built on the meta device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from castor._errors import Error


@dataclass
class Place:
    """Where a buffer is. of_hugging_face: the innermost model of transformers around it."""

    module: nn.Module
    name: str
    full_name: str
    of_hugging_face: nn.Module | None

    def get(self) -> torch.Tensor:
        return self.module._buffers[self.name]

    def is_saved(self) -> bool:
        return self.name not in self.module._non_persistent_buffers_set


class BuffersFromMeta:
    """Gives memory on the host to the buffers of a model that are on the meta device: to those that are not saved with the
    values that transformers computes for them, to others without values, which a state_dict has."""

    def __init__(self, model: nn.Module):
        places = places_in("", model, None, set())
        self.places = [place for place in places if place.get() is not None and place.get().is_meta]
        self.before = [place.get() for place in self.places]
        self.given: dict[int, torch.Tensor] = {}
        self.waiting: list[tuple[Place, torch.Tensor, int]] = []
        try:
            self.give([place for place in self.places if not place.is_saved()])
            self.compute()
            self.give([place for place in self.places if place.is_saved()])
        except BaseException:
            self.undo()
            raise

    def give(self, places: list[Place]) -> None:
        """What several modules share goes on to be one tensor."""
        for place in places:
            buffer = place.get()
            if id(buffer) not in self.given:
                self.given[id(buffer)] = torch.empty_like(buffer, device="cpu")
            place.module._buffers[place.name] = self.given[id(buffer)]

    def compute(self) -> None:
        """Parameters and saved buffers are left alone, and the generators of random numbers, too."""
        places = [place for place in self.places if not place.is_saved()]
        for module, owner in {place.module: place.of_hugging_face for place in places}.items():
            if owner is not None:
                with torch.no_grad(), torch.random.fork_rng(devices=[]), marked(module):
                    owner._init_weights(module)
        for place in places:
            if self.is_as_given(place):
                raise Error(
                    f"buffer {place.full_name} was built on the meta device and no state_dict has its values; build the model "
                    "in castor.lazy.LazyInitContext()",
                    "usage",
                )

    def is_as_given(self, place: Place) -> bool:
        return any(place.get() is tensor and not tensor._version for tensor in self.given.values())

    def follow(self) -> None:
        """The saved ones wait for values from now on, in the memory that they have now."""
        self.waiting = [(place, place.get(), place.get()._version) for place in self.places if place.is_saved()]
        self.places, self.before, self.given = [], [], {}  # the model's hooks have this object

    def missing(self) -> set[str]:
        """Those that were neither written nor replaced since."""
        self.waiting = [
            (place, tensor, version)
            for place, tensor, version in self.waiting
            if place.get() is tensor and tensor._version == version
        ]
        return {place.full_name for place, _, _ in self.waiting}

    def undo(self) -> None:
        for place, buffer in zip(self.places, self.before):
            place.module._buffers[place.name] = buffer


def places_in(prefix: str, module: nn.Module, owner: nn.Module | None, seen: set[nn.Module]) -> Iterator[Place]:
    """owner: the innermost model of transformers around the module."""
    if module in seen:
        return
    seen.add(module)
    owner = module if is_of_hugging_face(module) else owner
    for name in module._buffers:
        yield Place(module, name, prefix + name, owner)
    for name, child in module.named_children():
        yield from places_in(f"{prefix}{name}.", child, owner, seen)


def is_of_hugging_face(module: nn.Module) -> bool:
    return hasattr(module, "_init_weights") and hasattr(module, "_initialize_weights")


@contextlib.contextmanager
def marked(module: nn.Module) -> Iterator[None]:
    """Within it transformers takes the parameters of a module, and its saved buffers, for initialised."""
    buffers = (buffer for name, buffer in module._buffers.items() if name not in module._non_persistent_buffers_set)
    tensors = [tensor for tensor in (*module.parameters(), *buffers) if tensor is not None]
    tensors = [tensor for tensor in tensors if not hasattr(tensor, "_is_hf_initialized")]
    for tensor in tensors:
        tensor._is_hf_initialized = True
    try:
        yield
    finally:
        for tensor in tensors:
            del tensor._is_hf_initialized
