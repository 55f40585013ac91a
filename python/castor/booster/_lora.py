# SPDX-License-Identifier: Apache-2.0
"""Adapters of peft on a model whose own parameters are frozen."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from castor._access import is_boosted
from castor._errors import Error
from castor._lazy_tensors import Building
from castor._versions import version_of
from castor.lazy import LazyInitContext

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel


def initialised(model: PeftModel, config: PeftConfig) -> PeftModel:
    """Adapters beside a base on the meta device are there too. Those of LoRA that begin with random numbers alone get them when
    the model is boosted."""
    from peft.tuners.lora import LoraLayer

    if getattr(config, "init_lora_weights", None) not in (True, False, "gaussian") or getattr(config, "use_dora", False):
        return model
    with contextlib.nullcontext() if Building.is_open else LazyInitContext():
        for layer in model.modules():
            if isinstance(layer, LoraLayer) and replace_empty(layer):
                layer.reset_lora_parameters(model.active_adapter, config.init_lora_weights)
    return model


def with_values(model: PeftModel, folder: str | os.PathLike) -> PeftModel:
    """Adapters of the folder beside a base on the meta device: they get their values when the model is boosted."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    peft = imported_peft()
    values = peft.load_peft_weights(os.fspath(folder), device="cpu")
    with LazyInitContext():
        if any([replace_empty(layer) for layer in model.modules() if isinstance(layer, BaseTunerLayer)]):
            peft.set_peft_model_state_dict(model, values)
    return model


def replace_empty(layer: nn.Module) -> bool:
    """The parameters of its adapters, by ones whose values will be recorded; whether there are any without."""
    found = False
    for path, module in layer.named_modules():
        for name, parameter in () if path.startswith("base_layer") else [*module.named_parameters(recurse=False)]:
            if parameter.is_meta and not version_of(parameter):
                made = torch.empty(parameter.shape, dtype=parameter.dtype)
                setattr(module, name, nn.Parameter(made, parameter.requires_grad))
                found = True
    return found


def with_adapters(model: nn.Module, folder: str | os.PathLike | None, config: PeftConfig | None) -> PeftModel:
    """With those of `folder`, or new ones as `config` says."""
    peft = imported_peft()
    if is_boosted(model):
        raise Error("enable_lora comes before boost, and the model was boosted already", "usage")
    if folder is None and config is None:
        raise Error("enable_lora takes lora_config, a peft.LoraConfig, or pretrained_dir, a folder of adapters", "usage", "lora_config")
    if config is not None and not isinstance(config, peft.PeftConfig):
        raise Error(f"lora_config takes a peft.LoraConfig, not {config!r}", "usage", "lora_config")
    if folder is None:
        return initialised(peft.get_peft_model(model, config), config)
    if not are_adapters(folder):
        raise Error(f"{os.fspath(folder)} has no adapter_config.json; name the folder that save_lora_as_pretrained wrote", "io")
    if Building.is_open:
        raise Error("within LazyInitContext no file is read; call enable_lora with pretrained_dir after it, on the model that it made", "usage")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*copying from a non-meta parameter in the checkpoint to a meta parameter")  # see with_values
        found = peft.PeftModel.from_pretrained(model, os.fspath(folder), is_trainable=True, config=config)
    return with_values(found, folder) if any(parameter.is_meta for parameter in found.parameters()) else found


def save_adapters(model: nn.Module, folder: str | os.PathLike, use_safetensors: bool) -> None:
    if not isinstance(model, imported_peft().PeftModel):
        raise Error(f"the model has no adapters, it is of class {type(model).__name__}; call booster.enable_lora before boost", "usage")
    model.save_pretrained(os.fspath(folder), safe_serialization=use_safetensors)


def are_adapters(path: str | os.PathLike) -> bool:
    return Path(path, "adapter_config.json").is_file()


def load_adapters(model: PeftModel, folder: str | os.PathLike, strict: bool) -> None:
    """Into those that the model has. strict: every one gets values, and no value is left over."""
    peft = imported_peft()
    values, wanted = peft.load_peft_weights(os.fspath(folder), device="cpu"), peft.get_peft_model_state_dict(model)
    if strict and values.keys() != wanted.keys():
        name = min(values.keys() ^ wanted.keys())
        lacking = "the model lacks" if name in values else f"{folder} lacks"
        raise Error(f"{lacking} {name}; enable_lora(model, pretrained_dir={os.fspath(folder)!r}) makes these adapters", "usage")
    known = {name: value for name, value in values.items() if name in wanted}
    for name, value in known.items():
        if value.shape != wanted[name].shape:
            sizes = f"sizes {tuple(value.shape)}, and the model {tuple(wanted[name].shape)}"
            raise Error(f"{folder} has {name} with {sizes}; make the adapters as those that were saved", "usage")
    peft.set_peft_model_state_dict(model, known)


def imported_peft():
    try:
        import peft
    except ImportError as error:
        raise Error(f"adapters are peft's, which cannot be imported ({error}); pip install peft", "usage") from None
    return peft
