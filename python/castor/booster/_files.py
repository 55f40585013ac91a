# SPDX-License-Identifier: Apache-2.0
"""Single files: a new one takes the place of the old one once it is whole, and what a file holds says how it is read."""

from __future__ import annotations

import contextlib
import ctypes
import numbers
import os
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from castor._errors import Error
from castor._placing import lies_in_a_part
from castor._stored import is_wrapper


def write(weights: dict[str, torch.Tensor], file: Path, use_safetensors: bool) -> None:
    with replacing(file) as beside:
        put(weights, beside, use_safetensors)


def put(weights: dict[str, Any], file: Path, use_safetensors: bool) -> None:
    """Writes a file that is not read yet. Weights for safetensors are apart()."""
    if use_safetensors:
        safetensors_torch().save_file(weights, file, metadata={"format": "pt"})
    else:
        with open(file, "wb") as stream:  # torch's own streams do not say why they fail
            torch.save(dict(weights), stream)
    sync(file)


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path beside `file`, for a file that then takes its place. An error leaves the old one, and nothing beside it."""
    if file.is_dir():
        raise Error(f"{file} is a folder; name a file, or give shard=True for weights in several", "usage")
    beside = file.with_name(file.name + ".part")
    with written(file):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            yield beside
            os.replace(beside, file)
            sync(file.parent)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(folder: Path, having: str) -> Iterator[Path]:
    """An empty folder beside `folder`, which then takes its place: that of a file, an empty folder, or one that has `having`;
    others are refused. An error leaves what was there, and so does the end of the process at any moment: where the system
    cannot exchange two folders at once, for one of the moments under the name that was_of gives."""
    folder = Path(os.path.abspath(folder))
    made, before = folder.with_name(folder.name + ".part"), was_of(folder)
    with written(folder):
        if folder.is_dir() and not (folder / having).exists() and any(folder.iterdir()):
            raise Error(f"{folder} is a folder with other files, which would be lost; name one that does not exist yet", "usage")
        try:
            for left in (made, before) if folder.exists() else (made,):  # of a process that was killed
                remove(left)
            made.mkdir(parents=True)
            yield made
            sync(made)
            if not folder.exists():
                os.rename(made, folder)
            elif not exchanged(made, folder):
                os.rename(folder, before)
                try:
                    os.rename(made, folder)
                except OSError:
                    os.rename(before, folder)
                    raise
            sync(folder.parent)
        finally:
            remove(made)
        remove(before)


def remove(path: Path) -> None:
    """A folder with all in it, or a file, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def was_of(folder: Path) -> Path:
    """What a folder is called for a moment while another takes its place."""
    return folder.with_name(folder.name + ".before")


def exchanged(one: Path, other: Path) -> bool:
    """The two paths name each other's file now; False where the system or the file system cannot do that."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux
    try:
        call = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    return call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


@contextlib.contextmanager
def explained(sentence: Callable[[Exception], str]) -> Iterator[None]:
    """Errors of the system and of libraries are castor.Errors with this sentence."""
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise Error(sentence(error), "io") from error


def written(path: Path) -> contextlib.AbstractContextManager[None]:
    """Around what writes `path`."""
    way_out = "what was there before stays; make room and give the right to write there, or name another path"
    return explained(lambda error: f"cannot write {path}: {reason_of(error)}; {way_out}")


def read_from(file: Path) -> contextlib.AbstractContextManager[None]:
    def sentence(error: Exception) -> str:
        empty = file.is_file() and not file.stat().st_size
        why = "the file is empty" if empty else reason_of(error)
        return f"cannot read {file}: {why}; name a file that was saved whole, or save it again"

    return explained(sentence)


def reason_of(error: BaseException) -> str:
    """In the words of the system, if it was its error: libraries raise others after it, or name files of their own."""
    if isinstance(error, pickle.UnpicklingError):
        return "it is damaged, or holds other things than tensors"
    text = str(error).strip().partition("\n")[0].partition(". This")[0]
    of_system = error.__context__ if "inline_container" in text else error  # torch ends its archive after an error, too
    if isinstance(of_system, OSError) and of_system.errno:
        return os.strerror(of_system.errno)
    if number := re.search(r"\(os error (\d+)\)", text):
        return os.strerror(int(number[1]))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def sync(path: Path) -> None:
    """Returns when a file, or the names in a folder, are on the drive."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def apart(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """safetensors has no tied tensors: of several names for one the first is saved, as Hugging Face does. Nor parts of one
    memory, of which copies are saved."""
    check_tensors(weights)
    seen: dict[tuple, str] = {}
    found = {}
    for name, tensor in weights.items():
        place = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and seen.setdefault(place, name) != name:
            continue
        found[name] = tensor.clone(memory_format=torch.contiguous_format) if lies_in_a_part(tensor) else tensor.contiguous()
    return found


def check_tensors(weights: dict[str, Any]) -> None:
    for name, value in weights.items():
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise Error(f"{name} is a {kind}, and safetensors has tensors alone; save with use_safetensors=False", "usage")
        if is_wrapper(value):
            why = f"{name} is of class {type(value).__name__}, and safetensors has plain tensors alone"
            raise Error(f"{why}; save with use_safetensors=False", "usage")


def python_numbers(values: Any) -> Any:
    """With Python's numbers in place of NumPy's, which loading refuses, within lists and dictionaries too."""
    if isinstance(values, dict):
        return {key: python_numbers(value) for key, value in values.items()}
    if type(values) in (list, tuple):
        return type(values)(map(python_numbers, values))
    if isinstance(values, numbers.Number) and hasattr(values, "item"):
        return values.item()
    return values


def safetensors_torch():
    try:
        import safetensors.torch
    except ImportError:
        raise Error("safetensors is not installed: pip install safetensors, or use_safetensors=False", "usage") from None
    return safetensors.torch


def opened(file: Path) -> Any:
    """The weights of a file of safetensors, or of torch.save, whatever its name; mapped where that can be (is_mapped)."""
    with read_from(file):
        if is_safetensors(file):
            safetensors_torch()
            from safetensors import safe_open

            return safe_open(file, framework="pt")
    weights = loaded(file)
    if not isinstance(weights, dict):
        raise Error(f"{file} holds a {type(weights).__name__}, and no weights by name; save the model's state_dict()", "usage")
    return weights


def loaded(file: Path) -> Any:
    """What torch.save has written."""
    with read_from(file):
        if file.suffix != ".safetensors":
            return torch.load(file, map_location="cpu", mmap=is_mapped(file), weights_only=True)
        with open(file, "rb") as stream:  # torch goes by that name
            return torch.load(stream, map_location="cpu", weights_only=True)


def is_mapped(file: Path) -> bool:
    """Whether `opened` reads no values yet; torch's old format, and what has a wrong name, it reads as a whole."""
    return is_safetensors(file) or (file.suffix != ".safetensors" and zipfile.is_zipfile(file))


def is_safetensors(file: Path) -> bool:
    """Such a file begins with the size of its header in 8 bytes, and the header, which is JSON."""
    with open(file, "rb") as stream:
        return stream.read(9)[8:] == b"{"
