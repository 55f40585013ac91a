# SPDX-License-Identifier: Apache-2.0
"""Reads weights into a model tensor by tensor, so that the host never holds more than the largest, or what makes it up; but
for files that cannot be mapped."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from castor._access import is_boosted_parameter
from castor._errors import Error
from castor._model import is_ours
from castor._state_dict import give_parts
from castor._stored import difference, is_wrapper
from castor._versions import version_of
from castor.booster._converting import Plan, without_ignored, without_optional
from castor.booster._files import is_mapped, opened, read_from
from castor.booster._folders import files_of
from castor.booster._lora import are_adapters, load_adapters

MAPPED_BYTES = 64 << 20  # what is read before files are mapped anew: pages that were read count as the program's memory


class Reader:
    """The tensors of several files, by name. The files are mapped; those that cannot be stay in memory."""

    def __init__(self, files: Iterable[Path]):
        self.open_files: dict[Path, Any] = {}
        self.versions: dict[Path, tuple[int, ...]] = {}
        self.n_bytes = 0
        self.file_of = {name: file for file in files for name in self.opened(file).keys()}

    def opened(self, file: Path) -> Any:
        if file not in self.open_files:
            self.open_files[file] = opened(file)
            facts = file.stat()
            version = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
            if self.versions.setdefault(file, version) != version:
                raise Error(f"{file} was replaced while it was read; load the weights again", "io")
        return self.open_files[file]

    def read(self, name: str) -> Any:
        if self.n_bytes > MAPPED_BYTES:
            self.open_files = {file: weights for file, weights in self.open_files.items() if not is_mapped(file)}
            self.n_bytes = 0
        file = self.file_of[name]
        weights = self.opened(file)
        with read_from(file):
            value = weights[name] if isinstance(weights, dict) else weights.get_tensor(name)
        self.n_bytes += value.nbytes if isinstance(value, torch.Tensor) else 0
        return value

    def read_sizes(self, name: str) -> Any:
        """A tensor of the same sizes, on the meta device; what is no tensor as it is."""
        weights = self.opened(self.file_of[name])
        if not isinstance(weights, dict):
            return torch.empty(weights.get_slice(name).get_shape(), device="meta")
        value = weights[name]
        return torch.empty(value.shape, device="meta") if isinstance(value, torch.Tensor) and not is_wrapper(value) else value


def load_model(model: nn.Module, path: str | os.PathLike, strict: bool) -> None:
    """Names and sizes are checked before the first value is given."""
    if hasattr(model, "peft_config") and are_adapters(path):
        load_adapters(model, path, strict)
        return
    reader = Reader(files_of(Path(path)))
    if hasattr(model, "peft_config") and not any(name in reader.file_of for name in model.state_dict(keep_vars=True)):
        model = model.get_base_model()  # whose weights the files may have, as they were before adapters came
    if has_hooks(model):
        load_by_files(model, path, reader, strict)
        return
    plan = Plan(model, reader.file_of)
    if not plan.given():
        tell_of_none(path, plan.targets)
    if strict:
        check_known(path, without_ignored(model, plan.unexpected))
        check_complete(model, plan.targets, plan.targets.keys() - plan.given(), path)
    for name, like in plan.read_all(reader.read_sizes):
        check_fits(plan.targets[name], name, like, reader.file_of.get(name, path))
    for name, values in plan.read_all(reader.read):
        give_values(model, plan.targets[name], name, values)


def check_fits(target: object, name: str, like: Any, path: str | os.PathLike) -> None:
    if not isinstance(target, torch.Tensor):  # extra state of a module
        return
    if not isinstance(like, torch.Tensor):
        raise Error(f"{path} has a {type(like).__name__} as {name}, and the model a tensor; name a file of weights", "usage")
    if like.shape != target.shape:
        raise Error(
            f"{path} has {name} with sizes {tuple(like.shape)}, and the model {tuple(target.shape)}; make the model as the one "
            "that was saved",
            "usage",
        )
    if why := difference(target, like):
        raise Error(f"{path} has {name}, which {why}; make the model as the one that was saved", "usage")
    if target.is_meta and not is_boosted_parameter(target) and not version_of(target):
        raise Error(f"{name} is on the meta device; boost the model before its weights are loaded", "usage")


def give_values(model: nn.Module, target: object, name: str, values: Any) -> None:
    if not isinstance(target, torch.Tensor):
        model.load_state_dict({name: values}, strict=False)
    elif is_boosted_parameter(target):
        give_parts(target, values)
    else:
        with torch.no_grad():
            target.copy_(values)


def has_hooks(model: nn.Module) -> bool:
    """Whether its modules change what a state_dict has, which needs it as a whole."""
    return any(map(changes_weights, model.modules()))


def changes_weights(module: nn.Module) -> bool:
    return type(module)._load_from_state_dict.__module__.partition(".")[0] != "torch" or not all(
        map(is_ours, module._load_state_dict_pre_hooks.values())
    )


def unchanged(module: nn.Module, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """By their names the parameters and buffers that get their values as a state_dict has them."""
    if changes_weights(module):
        return
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        if tensor is not None:
            yield prefix + name, tensor
    for name, child in module.named_children():
        yield from unchanged(child, f"{prefix}{name}.")


def load_by_files(model: nn.Module, path: str | os.PathLike, reader: Reader, strict: bool) -> None:
    for name, target in unchanged(model):
        if name in reader.file_of:
            check_fits(target, name, reader.read_sizes(name), reader.file_of[name])
    targets = model.state_dict(keep_vars=True)
    missing = set(targets)
    for file in dict.fromkeys(reader.file_of.values()):
        weights = {name: reader.read(name) for name, its_file in reader.file_of.items() if its_file == file}
        found = load_as_a_whole(model, weights, file)
        if strict:
            check_known(path, found.unexpected_keys)
        missing.intersection_update(found.missing_keys)
    if missing == targets.keys():
        tell_of_none(path, targets)
    if strict:
        check_complete(model, targets, missing, path)


def load_as_a_whole(model: nn.Module, weights: dict[str, Any], file: Path) -> Any:
    try:
        return model.load_state_dict(weights, strict=False)
    except Error:
        raise
    except RuntimeError as error:
        raise Error(f"{file} does not fit the model, which has some of its weights now: {error}", "usage") from error


def tell_of_none(path: str | os.PathLike, names: Iterable[str]) -> None:
    logging.getLogger("castor").warning("%s has no weight of the model, whose names are as %s", path, next(iter(names), "none"))


def check_known(path: str | os.PathLike, unexpected: Iterable[str]) -> None:
    if unexpected:
        raise Error(f"{path} has weights that the model does not have: {', '.join(sorted(unexpected)[:5])}", "usage")


def check_complete(model: nn.Module, targets: dict[str, Any], missing: set[str], path: str | os.PathLike) -> None:
    """targets: the state_dict of the model. missing: names in it that got no values; of a tied tensor one is enough."""
    names: dict[int, list[str]] = {}
    for name, value in targets.items():
        names.setdefault(id(value), []).append(name)
    of_none = [of[0] for of in names.values() if missing.issuperset(of)]
    wanted = without_optional(model, set(of_none))
    lacking = [name for name in of_none if name in wanted and not name.endswith(".num_batches_tracked")]  # as torch
    if lacking:
        raise Error(f"{path} lacks weights of the model: {', '.join(lacking[:5])}", "usage")
