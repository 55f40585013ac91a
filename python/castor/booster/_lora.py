# SPDX-License-Identifier: Apache-2.0
"""Adapters of peft on a model whose own parameters are frozen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from castor._access import is_boosted
from castor._errors import Error

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel


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
        return peft.get_peft_model(model, config)
    if not Path(folder, "adapter_config.json").is_file():
        raise Error(f"{os.fspath(folder)} has no adapter_config.json; name the folder that save_lora_as_pretrained wrote", "io")
    return peft.PeftModel.from_pretrained(model, os.fspath(folder), is_trainable=True, config=config)


def save_adapters(model: nn.Module, folder: str | os.PathLike, use_safetensors: bool) -> None:
    if not isinstance(model, imported_peft().PeftModel):
        raise Error(f"the model has no adapters, it is of class {type(model).__name__}; call booster.enable_lora before boost", "usage")
    model.save_pretrained(os.fspath(folder), safe_serialization=use_safetensors)


def imported_peft():
    try:
        import peft
    except ImportError as error:
        raise Error(f"adapters are peft's, which cannot be imported ({error}); pip install peft", "usage") from None
    return peft
