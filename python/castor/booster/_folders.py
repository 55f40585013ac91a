# SPDX-License-Identifier: Apache-2.0
"""Folders of weights, with the names and index of Hugging Face's: which of their files are read."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from castor._errors import Error
from castor.booster._files import read_from, reason_of

INDEX = ".index.json"
# What from_pretrained looks for, in its order.
NAMES = ("model.safetensors", "model.safetensors" + INDEX, "pytorch_model.bin", "pytorch_model.bin" + INDEX)
# Files of other things, which trainers save beside weights.
OTHERS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.bin", "scheduler.pt", "rng_state.pth")
SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.\w+")
MANIFEST = "castor.manifest"  # of a run, which save_optimizer saves


def files_of(path: Path) -> list[Path]:
    """The files of weights that `path` is, or names as an index, or has as a folder."""
    if path.is_dir():
        return files_in(path)
    if not path.exists():
        raise Error(f"{path}: there is no such file or folder; name one that holds weights", "usage")
    return files_of_index(path) if path.suffix == ".json" else [path]


def files_in(folder: Path) -> list[Path]:
    for name in NAMES:
        if (folder / name).is_file():
            return files_of(folder / name)
    found = sorted(folder.glob("*" + INDEX)) or weights_in(folder)
    if len(found) == 1:
        return files_of(found[0])
    if are_shards(found):
        return found
    if found:
        names = ", ".join(file.name for file in found[:5])
        raise Error(f"{folder} has several files of weights ({names}), and none is {NAMES[0]}; name one of them", "usage")
    hint = "it holds a run of save_optimizer; read that with load_optimizer, and " if (folder / MANIFEST).exists() else ""
    raise Error(f"{folder} has no file of weights ({', '.join(NAMES)}); {hint}name a folder that has one", "usage")


def weights_in(folder: Path) -> list[Path]:
    for endings in ((".safetensors",), (".bin", ".pt", ".pth")):
        if found := sorted(file for file in folder.iterdir() if file.suffix in endings and file.name not in OTHERS):
            return found
    return []


def are_shards(files: list[Path]) -> bool:
    """Whether they are all the shards of one model, whose index is missing."""
    found = [SHARD.fullmatch(file.name) for file in files]
    if not files or not all(found) or len({(shard[1], shard[3]) for shard in found}) > 1:
        return False
    return [int(shard[2]) for shard in found] == [*range(1, int(found[0][3]) + 1)]


def files_of_index(index: Path) -> list[Path]:
    with read_from(index):
        try:
            names = names_in(index)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Error(f"{index} is no index of weights, or damaged ({reason_of(error)}); name another", "io") from error
    files = [index.parent / name for name in sorted(names)]
    for file in files:
        if not file.is_file():
            raise Error(f"{index} names {file.name}, which is not in its folder; copy that file too, or save again", "io")
    return files


def names_in(index: Path) -> set[str]:
    return {os.fspath(name) for name in json.loads(index.read_text())["weight_map"].values()}


def named_by(index: Path) -> set[str]:
    """The shards of an index in its own folder, if it can be read."""
    try:
        return {name for name in names_in(index) if os.path.basename(name) == name}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return set()
