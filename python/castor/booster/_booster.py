# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import os

import torch
from torch import nn

from castor import _core
from castor._access import give_places
from castor._boosted import Groups, change_class, check_all_have_groups, groups_of, rule_of
from castor._guards import check_free, check_no_new_parameters, check_parameters, refuse_moves
from castor._hooks import connect_units
from castor._outside import OutsideUses
from castor._precision import Cast, cast_inputs, cast_outputs_to_fp32, dtype_of
from castor._state_dict import connect_state_dict
from castor._units import Unit, find_units
from castor.booster._files import load_model, save_model
from castor.booster.plugin import Plugin, TorchDDPPlugin


class Booster:
    """Gives a model, its optimizer and what goes with them to a plugin."""

    def __init__(self, device: str | None = None, mixed_precision: object = None, plugin: Plugin | None = None):
        self.device = device
        self.mixed_precision = mixed_precision
        self.plugin = plugin or TorchDDPPlugin()

    def boost(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        criterion: object = None,
        dataloader: object = None,
        lr_scheduler: object = None,
    ):
        """The five, in this order; model and optimizer are the same objects as before, and train under the plugin."""
        if optimizer is not None:
            boost_pair(model, optimizer, self.plugin)
        return model, optimizer, criterion, dataloader, lr_scheduler

    def backward(self, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
        optimizer.backward(loss)

    def no_sync(self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None):
        """Within it no backward pass is the last of its step, where the plugin states micro_batches."""
        return model.no_sync()

    def save_model(
        self,
        model: nn.Module,
        path: str | os.PathLike,
        shard: bool = False,
        gather_dtensor: bool = True,
        prefix: str | None = None,
        size_per_shard: int = 1024,
        use_safetensors: bool = True,
        use_async: bool = False,
    ) -> None:
        """Weights by name: in the file `path`, or with `shard` in the folder `path`, in files of up to `size_per_shard` MB
        with an index, as Hugging Face reads them."""
        save_model(model, path, shard, prefix, size_per_shard, use_safetensors)

    def load_model(self, model: nn.Module, path: str | os.PathLike, strict: bool = True) -> None:
        """Weights from a file, a folder with an index, or the index itself."""
        load_model(model, path, strict)

    def save_optimizer(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike, shard: bool = False, **_) -> None:
        """Masters, moments, counters and the loss scale, in the folder `path`."""
        optimizer.castor_session.save(os.fspath(path))

    def load_optimizer(self, optimizer: torch.optim.Optimizer, path: str | os.PathLike) -> None:
        """What save_optimizer has saved, weights included; on any budgets, before the first step."""
        optimizer.castor_session.resume([os.fspath(path)])

    def save_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        torch.save(lr_scheduler.state_dict(), path)

    def load_lr_scheduler(self, lr_scheduler, path: str | os.PathLike) -> None:
        lr_scheduler.load_state_dict(torch.load(path))
        for group, rate in zip(lr_scheduler.optimizer.param_groups, lr_scheduler.get_last_lr()):
            group["lr"] = rate


def boost_pair(model: nn.Module, optimizer: torch.optim.Optimizer, plugin: Plugin) -> None:
    """An error leaves both as they were."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    rule = rule_of(type(optimizer))
    groups = groups_of(optimizer, rule, names)
    check_free(names)
    check_parameters(names)
    check_all_have_groups(groups, names)
    units = find_units(model)
    cast = Cast(model, dtype_of(plugin.precision)) if plugin.precision else None
    try:
        session = session_of(names, units, cast, plugin, rule, groups)
    except BaseException:
        if cast:
            cast.undo()
        raise
    change_class(optimizer)
    optimizer.castor_rule, optimizer.castor_names, optimizer.castor_groups = rule, names, groups
    optimizer.castor_session = session
    give_places(names, session)
    connect_state_dict(model)
    refuse_moves(model)
    model.zero_grad = optimizer.zero_grad
    model.no_sync = lambda: no_sync(session)

    def before_training(*_) -> None:
        if torch.is_grad_enabled():
            check_no_new_parameters(model, names)
            if plugin.micro_batches:  # the step is announced in the last backward pass, with the groups of now
                optimizer.castor_follow_groups()

    model.register_forward_pre_hook(before_training)
    if plugin.precision in ("bf16", "fp16"):
        cast_inputs(model, dtype_of(plugin.precision))
    if plugin.force_outputs_fp32:
        cast_outputs_to_fp32(model)
    optimizer.castor_first_step = OutsideUses(model, units, connect_units(units, session), session, plugin.debug)


@contextlib.contextmanager
def no_sync(session: _core.Session):
    held = session.no_sync()
    try:
        yield
    finally:
        del held


def session_of(
    names: dict[nn.Parameter, str], units: list[Unit], cast: Cast | None, plugin: Plugin, rule: str, groups: Groups
) -> _core.Session:
    positions = {parameter: i for i, parameter in enumerate(names)}
    return _core.boost(
        [(name, parameter) for parameter, name in names.items()],
        [cast.first_values.get(parameter) for parameter in names] if cast else [],
        [(unit.name, [positions[parameter] for parameter in unit.parameters]) for unit in units],
        plugin.name,
        plugin.options,
        rule,
        groups,
        plugin.max_norm,
        plugin.micro_batches,
        plugin.scaler,
    )
