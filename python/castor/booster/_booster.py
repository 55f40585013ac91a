# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch
from torch import nn

from castor import _core
from castor._access import give_places
from castor._boosted import Groups, change_class, check_all_have_groups, groups_of, rule_of
from castor._hooks import connect_units
from castor._outside import OutsideUses
from castor._precision import Cast, cast_inputs, cast_outputs_to_fp32, dtype_of
from castor._state_dict import connect_state_dict
from castor._units import Unit, find_units
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


def boost_pair(model: nn.Module, optimizer: torch.optim.Optimizer, plugin: Plugin) -> None:
    """An error leaves both as they were."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    rule = rule_of(type(optimizer))
    groups = groups_of(optimizer, rule, names)
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
    model.zero_grad = optimizer.zero_grad
    if plugin.micro_batches:  # the step is announced in the last backward pass, with these values
        model.register_forward_pre_hook(lambda *_: optimizer.castor_follow_groups() if torch.is_grad_enabled() else None)
    if plugin.precision in ("bf16", "fp16"):
        cast_inputs(model, dtype_of(plugin.precision))
    if plugin.force_outputs_fp32:
        cast_outputs_to_fp32(model)
    optimizer.castor_first_step = OutsideUses(model, units, connect_units(units, session), session, plugin.debug)


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
