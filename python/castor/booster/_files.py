# SPDX-License-Identifier: Apache-2.0
"""Files of weights, with the names, shapes and index of Hugging Face's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from castor._errors import Error


def save_model(
    model: nn.Module, path: str | os.PathLike, shard: bool, prefix: str | None, size_per_shard: int, use_safetensors: bool
) -> None:
    check_has_values(model)
    if not shard:
        write(model.state_dict(), Path(path), use_safetensors)
    elif hasattr(model, "save_pretrained"):
        model.save_pretrained(path, max_shard_size=size_per_shard * 10**6)
    else:
        save_shards(model.state_dict(), Path(path), prefix or "model", size_per_shard * 10**6, use_safetensors)


def check_has_values(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        place = getattr(parameter, "castor_place", None)
        if parameter.is_meta or (place and place.name in place.waiting):
            raise Error(f"{name} has no values yet; boost the model and load its weights before it is saved", "usage")


def save_shards(weights: dict[str, torch.Tensor], folder: Path, prefix: str, limit_bytes: int, use_safetensors: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shards = [[]]
    size = 0
    for name, tensor in weights.items():
        if shards[-1] and size + tensor.nbytes > limit_bytes:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += tensor.nbytes
    ending = "safetensors" if use_safetensors else "bin"
    places = {}
    for number, names in enumerate(shards, 1):
        file = f"{prefix}-{number:05}-of-{len(shards):05}.{ending}"
        write({name: weights[name] for name in names}, folder / file, use_safetensors)
        places.update(dict.fromkeys(names, file))
    total = sum(tensor.nbytes for tensor in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / f"{prefix}.{ending}.index.json").write_text(json.dumps(index, indent=2) + "\n")


def write(weights: dict[str, torch.Tensor], file: Path, use_safetensors: bool) -> None:
    """Beside `file` first, so that an old one stays whole where this fails."""
    beside = file.with_name(file.name + ".part")
    if use_safetensors:
        safetensors_torch().save_file(apart(weights), beside, metadata={"format": "pt"})
    else:
        torch.save(dict(weights), beside)
    os.replace(beside, file)


def apart(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """safetensors has no tied tensors: of several names the first is saved, as Hugging Face does."""
    seen: dict[int, str] = {}
    return {
        name: tensor.contiguous()
        for name, tensor in weights.items()
        if not tensor.numel() or seen.setdefault(tensor.untyped_storage().data_ptr(), name) == name
    }


def safetensors_torch():
    try:
        import safetensors.torch
    except ImportError:
        raise Error("safetensors is not installed: pip install safetensors, or use_safetensors=False", "usage") from None
    return safetensors.torch


def files_of(path: Path) -> Iterator[Path]:
    if path.is_dir():
        indices = sorted(path.glob("*.index.json"))
        if indices:
            path = indices[0]
        else:
            yield from sorted([*path.glob("*.safetensors"), *path.glob("*.bin")])
            return
    if path.name.endswith(".index.json"):
        places = json.loads(path.read_text())["weight_map"]
        yield from (path.parent / file for file in sorted(set(places.values())))
    else:
        yield path
