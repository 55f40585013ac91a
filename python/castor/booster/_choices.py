# SPDX-License-Identifier: Apache-2.0
"""What a Booster's own options mean for its plugin. Warnings are of the line that makes the Booster."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn

from castor._access import place_of
from castor._boosted import BoostedOptimizer
from castor._errors import Error, nearest
from castor.booster._plugin import Plugin
from castor.mixed_precision import MixedPrecision, mixed_precision_of

DEVICES = ("cpu", "cuda")


def check_plugin(plugin: object) -> Plugin:
    if not isinstance(plugin, Plugin):
        raise Error(f"plugin takes a plugin, as GeminiPlugin(), not {plugin!r}", "usage", "plugin")
    return plugin


def boosted_optimizer(optimizer: object) -> BoostedOptimizer:
    if not isinstance(optimizer, BoostedOptimizer):
        raise Error(
            f"the optimizer was not boosted, it is of class {type(optimizer).__name__}; call booster.boost(model, optimizer) "
            "first",
            "usage",
        )
    return optimizer


def boosted_model(model: object) -> nn.Module:
    if not isinstance(model, nn.Module) or "no_sync" not in vars(model) or not any(map(place_of, model.parameters())):
        raise Error(
            f"the model was not boosted, it is of class {type(model).__name__}; call booster.boost(model, optimizer) first, "
            "and give the whole model",
            "usage",
        )
    return model


def device_of(device: str | torch.device | None) -> torch.device | None:
    if device is None:
        return None
    name = str(device).partition(":")[0]
    if name not in DEVICES:
        raise Error(
            f"device takes one of {', '.join(DEVICES)}, not {str(device)!r}{nearest(name, DEVICES)}", "usage", "device"
        )
    if name == "cuda" and not torch.cuda.is_available():
        raise Error("device is 'cuda', and torch sees no GPU", "usage", "device")
    return torch.device(device)


def plugin_for(plugin: Plugin, mixed_precision: torch.dtype | str | MixedPrecision | None) -> Plugin:
    """The plugin with that precision, where it states none."""
    if mixed_precision is None:
        return plugin
    chosen = mixed_precision_of(mixed_precision)
    if plugin.precision is not None:
        why = f"{type(plugin).__name__} states precision={plugin.precision!r}"
        warnings.warn(f"Booster(mixed_precision=…) has no effect: {why}", stacklevel=3)
        return plugin
    with_precision = copy.copy(plugin)
    vars(with_precision).update(precision=chosen.precision, **chosen.options())
    return with_precision
