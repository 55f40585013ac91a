# SPDX-License-Identifier: Apache-2.0
"""Reads weights into a model tensor by tensor, so that the host never holds more than the largest, or what makes it up."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from castor._access import place_of
from castor._errors import Error
from castor._model import is_ours
from castor._versions import version_of
from castor.booster._converting import Plan, without_ignored
from castor.booster._files import files_of, safetensors_torch

MAPPED_BYTES = 64 << 20  # what is read before files are mapped anew: pages that were read count as the program's memory


class Reader:
    """The tensors of several files, by name; the files are mapped."""

    def __init__(self, files: Iterable[Path]):
        self.open_files: dict[Path, Any] = {}
        self.n_bytes = 0
        self.file_of = {name: file for file in files for name in self.opened(file).keys()}

    def opened(self, file: Path) -> Any:
        if file not in self.open_files:
            self.open_files[file] = opened(file)
        return self.open_files[file]

    def read(self, name: str) -> Any:
        if self.n_bytes > MAPPED_BYTES:
            self.open_files.clear()
            self.n_bytes = 0
        weights = self.opened(self.file_of[name])
        value = weights[name] if isinstance(weights, dict) else weights.get_tensor(name)
        self.n_bytes += value.nbytes if isinstance(value, torch.Tensor) else 0
        return value


def opened(file: Path) -> Any:
    if file.suffix == ".safetensors":
        safetensors_torch()
        from safetensors import safe_open

        return safe_open(file, framework="pt")
    return torch.load(file, map_location="cpu", mmap=zipfile.is_zipfile(file))


def load_model(model: nn.Module, path: str | os.PathLike, strict: bool) -> None:
    reader = Reader(files_of(Path(path)))
    if has_hooks(model):
        load_by_files(model, path, reader, strict)
        return
    plan = Plan(model, reader.file_of)
    if strict:
        check_known(path, without_ignored(model, plan.unexpected))
        check_complete(model, plan.given(), path)
    for name, values in plan.read_all(reader.read):
        give_values(model, plan.targets[name], name, values, path)


def give_values(model: nn.Module, target: object, name: str, values: Any, path: str | os.PathLike) -> None:
    if not isinstance(target, torch.Tensor):  # extra state of a module
        model.load_state_dict({name: values}, strict=False)
        return
    if values.shape != target.shape:
        raise Error(f"{path} has {name} with sizes {tuple(values.shape)}, and the model {tuple(target.shape)}", "usage")
    if place := place_of(target):
        place[0].load([(place[1], values)])
        target.castor_place.waiting.discard(place[1])
    elif target.is_meta and not version_of(target):
        raise Error(f"{name} is on the meta device; boost the model before its weights are loaded", "usage")
    else:
        with torch.no_grad():
            target.copy_(values)


def has_hooks(model: nn.Module) -> bool:
    """Whether its modules change what a state_dict has, which needs it as a whole."""
    return any(
        type(module)._load_from_state_dict.__module__.partition(".")[0] != "torch"
        or not all(map(is_ours, module._load_state_dict_pre_hooks.values()))
        for module in model.modules()
    )


def load_by_files(model: nn.Module, path: str | os.PathLike, reader: Reader, strict: bool) -> None:
    given = set()
    for file in dict.fromkeys(reader.file_of.values()):
        weights = {name: reader.read(name) for name, its_file in reader.file_of.items() if its_file == file}
        unexpected = model.load_state_dict(weights, strict=False).unexpected_keys
        if strict:
            check_known(path, unexpected)
        given.update(weights)
    if strict:
        check_complete(model, given, path)


def check_known(path: str | os.PathLike, unexpected: Iterable[str]) -> None:
    if unexpected:
        raise Error(f"{path} has weights that the model does not have: {', '.join(sorted(unexpected)[:5])}", "usage")


def check_complete(model: nn.Module, given: set[str], path: str | os.PathLike) -> None:
    """Of a tied parameter one name is enough."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    missing = [of[0] for of in names.values() if not given.intersection(of)]
    if missing:
        raise Error(f"{path} lacks weights of the model: {', '.join(missing[:5])}", "usage")
