# SPDX-License-Identifier: Apache-2.0
"""Saves weights, in a file or a folder. At every moment a folder has the weights from before or the new ones: files get names
that no index has, and the index comes last."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import nn

from castor._errors import Error
from castor._stored import names_of_stored
from castor.booster._files import apart, put, safetensors_torch, sync, write, written
from castor.booster._folders import INDEX, NAMES, named_by, names_in, weights_in


def save_model(
    model: nn.Module, path: Path, shard: bool, prefix: str | None, size_per_shard: float, use_safetensors: bool
) -> None:
    check_has_values(model)
    if not shard:
        write(weights_of(model, use_safetensors), path, use_safetensors)
        return
    name = f"{prefix or 'model'}.safetensors" if use_safetensors else f"{prefix or 'pytorch_model'}.bin"
    with saving_in(path) as made:
        if not hasattr(model, "save_pretrained"):
            save_shards(weights_of(model, use_safetensors), made, name, size_per_shard * 10**6)
            put_in_place(made, path, name, name)
            return
        model.save_pretrained(made, max_shard_size=int(size_per_shard * 10**6))
        was = name_in(made, model)
        if was != NAMES[0] and name != NAMES[0]:
            raise Error(f"{type(model).__name__} saves {was}; leave out prefix and use_safetensors", "usage", "prefix")
        put_in_place(made, path, was, name if was == NAMES[0] else was)


def weights_of(model: nn.Module, use_safetensors: bool) -> dict[str, torch.Tensor]:
    return apart(model.state_dict()) if use_safetensors else model.state_dict()


def check_has_values(model: nn.Module) -> None:
    for tensor, name in names_of_stored(model).items():
        place = getattr(tensor, "castor_place", None)
        if tensor.is_meta or (place and place.name in place.waiting):
            raise Error(f"{name} has no values yet; boost the model and load its weights before it is saved", "usage")


def name_in(made: Path, model: nn.Module) -> str:
    """How save_pretrained has called the weights: adapters and diffusers have names of their own."""
    found = sorted(made.glob("*" + INDEX)) or weights_in(made)
    if not found:
        raise Error(f"save_pretrained of {type(model).__name__} has written no weights; save with shard=False", "usage")
    return found[0].name.removesuffix(INDEX)


@contextlib.contextmanager
def saving_in(folder: Path) -> Iterator[Path]:
    """A folder within `folder`, in which files are made that are then put in place. In the end it is gone."""
    if folder.exists() and not folder.is_dir():
        raise Error(f"{folder} is a file; name a folder, which is made if it is missing", "usage")
    is_new = not folder.exists()
    made = folder / "saving.part"
    with written(folder):
        try:
            shutil.rmtree(made, ignore_errors=True)  # of a process that was killed
            made.mkdir(parents=True)
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
            if is_new:
                with contextlib.suppress(OSError):  # unless something was put in place
                    folder.rmdir()


def save_shards(weights: dict[str, torch.Tensor], folder: Path, name: str, limit_bytes: float) -> None:
    shards = [[]]
    size = 0
    for key, tensor in weights.items():
        if shards[-1] and size + tensor.nbytes > limit_bytes:
            shards.append([])
            size = 0
        shards[-1].append(key)
        size += tensor.nbytes
    stem, ending = os.path.splitext(name)
    places = {}
    for number, keys in enumerate(shards, 1):
        file = f"{stem}-{number:05}-of-{len(shards):05}{ending}"
        put({key: weights[key] for key in keys}, folder / file, ending == ".safetensors")
        places.update(dict.fromkeys(keys, file))
    total = sum(tensor.nbytes for tensor in weights.values())
    write_index(folder / (name + INDEX), {"metadata": {"total_size": total}, "weight_map": places})


def write_index(index: Path, described: dict) -> None:
    index.write_text(json.dumps(described, indent=2) + "\n")


def put_in_place(made: Path, folder: Path, was: str, name: str) -> None:
    """Gives `folder` what was made in `made`, last of all the index or the only file of weights, which makes it valid; the
    weights were called `was`, and get the name `name`. Then removes those that they replace."""
    if (made / (was + INDEX)).exists():
        rename_shards(made, folder, was, name)
        last = name + INDEX
    else:
        rename(made / was, made / name)
        last = name
    others = sorted(file.name for file in made.iterdir() if file.name != last)
    for other in named_by(made / last):
        (folder / other).unlink(missing_ok=True)  # of a save that was interrupted; no index names it
    for each in (*others, last):
        sync(made / each)
    before = named_by(folder / last) - set(others)
    for other in others:
        os.replace(made / other, folder / other)
    sync(folder)
    os.replace(made / last, folder / last)
    sync(folder)
    for shard in before:
        (folder / shard).unlink(missing_ok=True)
    remove_replaced(folder, name, last)


def rename_shards(made: Path, folder: Path, was: str, name: str) -> None:
    """To names that no index in `folder` has."""
    index = made / (was + INDEX)
    described = json.loads(index.read_text())
    taken = set().union(*(named_by(other) for other in folder.glob("*" + INDEX)))
    names = fresh_names(sorted(names_in(index)), was, name, taken)
    for shard, fresh in names.items():
        rename(made / shard, made / fresh)
    index.unlink()
    described["weight_map"] = {key: names[shard] for key, shard in described["weight_map"].items()}
    write_index(made / (name + INDEX), described)


def fresh_names(shards: Iterable[str], was: str, name: str, taken: set[str]) -> dict[str, str]:
    """As model-00001-of-00002.safetensors, or where that is taken model-2-00001-of-00002.safetensors."""
    (old_stem, old_ending), (stem, ending) = os.path.splitext(was), os.path.splitext(name)
    middles = {shard: shard.removeprefix(old_stem).removesuffix(old_ending) for shard in shards}
    for number in itertools.count(1):
        mark = f"-{number}" if number > 1 else ""
        names = {shard: f"{stem}{mark}{middle}{ending}" for shard, middle in middles.items()}
        if taken.isdisjoint(names.values()):
            return names


def rename(file: Path, target: Path) -> None:
    """By its new name a file of safetensors may become one of torch.save."""
    if file.suffix == target.suffix:
        file.rename(target)
    else:
        put(safetensors_torch().load_file(file), target, use_safetensors=False)
        file.unlink()


def remove_replaced(folder: Path, name: str, last: str) -> None:
    """What would be read before `last`, from the last one on, so that no third weights appear in between; and the other
    form of the same weights."""
    replaced = [*reversed(NAMES[: NAMES.index(last)])] if last in NAMES else []
    for other in (*replaced, *({name, name + INDEX} - {last})):
        shards = named_by(folder / other) if other.endswith(INDEX) else ()
        (folder / other).unlink(missing_ok=True)
        for shard in shards:
            (folder / shard).unlink(missing_ok=True)
