# SPDX-License-Identifier: Apache-2.0
"""What a Booster's own options mean for its plugin, and which options of its methods are refused. Warnings are of the line that
makes the Booster."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from castor._access import is_boosted
from castor._boosted import BoostedOptimizer
from castor._errors import Error, nearest
from castor.booster._options import check_known
from castor.booster._plugin import Plugin
from castor.booster.plugin import GeminiPlugin
from castor.mixed_precision import MixedPrecision, mixed_precision_of

DEVICES = ("cpu", "cuda")


def check_plugin(plugin: object) -> Plugin:
    if not isinstance(plugin, Plugin):
        raise Error(f"plugin takes a plugin, as GeminiPlugin(), not {plugin!r}", "usage", "plugin")
    return plugin


def plugin_of_loop(plugin: Plugin | None, precision: str | None, max_norm: float | None = None, micro_batches: int | None = None) -> Plugin:
    """That of a loop of another package: a copy of `plugin`, or GeminiPlugin, with what the loop states and the plugin does not.
    A precision that it states goes before a plugin's usual one."""
    made = GeminiPlugin(precision=None) if plugin is None else copy.copy(check_plugin(plugin))
    usual = type(made).__dataclass_fields__["precision"].default
    if precision is not None and made.precision in (None, usual):
        made.precision = precision
    made.max_norm = made.max_norm or max_norm or 0.0
    made.micro_batches = made.micro_batches or micro_batches
    return made


def boosted_optimizer(optimizer: object) -> BoostedOptimizer:
    if not isinstance(optimizer, BoostedOptimizer):
        raise Error(
            f"the optimizer was not boosted, it is of class {type(optimizer).__name__}; call booster.boost(model, optimizer) "
            "first",
            "usage",
        )
    return optimizer


def boosted_model(model: object) -> nn.Module:
    if not isinstance(model, nn.Module) or "no_sync" not in vars(model) or not is_boosted(model):
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


def check_unknown(method: Callable, given: dict[str, Any]) -> None:
    """given: what the method has taken by names that it does not have."""
    parameters = inspect.signature(method).parameters.values()
    known = [each.name for each in parameters if each.name != "self" and each.kind is not each.VAR_KEYWORD]
    check_known(method.__name__, known, given)


def check_saving(gather_dtensor: bool, use_async: bool) -> None:
    if not gather_dtensor:
        raise Error("gather_dtensor is False, and no tensor is divided among ranks; leave it out", "usage", "gather_dtensor")
    if use_async:
        raise Error("use_async is True, and files are written before the call returns; leave it out", "usage", "use_async")


def check_shards(shard: bool, prefix: str | None, size_per_shard: float) -> None:
    """0: each tensor has a file of its own."""
    if not isinstance(size_per_shard, (int, float)) or not 0 <= size_per_shard < float("inf"):
        raise Error(f"size_per_shard takes a number of MB, not {size_per_shard!r}", "usage", "size_per_shard")
    if prefix is not None and not shard:
        raise Error("prefix names the files of shard=True, and the path the only file; leave one out", "usage", "prefix")
    if prefix is not None and "/" in prefix:
        raise Error(f"prefix begins the names of files, and {prefix!r} has a /; name the folder in path", "usage", "prefix")


def check_states(prefix: str | None, size_per_shard: float) -> None:
    if prefix is not None:
        raise Error("prefix is given, and files of states have names of their own; leave it out", "usage", "prefix")
    if size_per_shard != 1024:
        why = "states are in one file, which grows piece by piece"
        raise Error(f"size_per_shard is {size_per_shard!r}, and {why}; leave it out", "usage", "size_per_shard")
