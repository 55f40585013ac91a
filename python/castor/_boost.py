# SPDX-License-Identifier: Apache-2.0
"""Boosting: a session around a model and its optimizer, which stay the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from castor import _core
from castor._access import give_places
from castor._boosted import Groups, change_class, check_all_have_groups, groups_of, rule_of
from castor._forks import SESSIONS
from castor._guards import check_free, check_parameters
from castor._hooks import connect_units, share_gradient_hooks
from castor._model import change_methods, follow_before_training
from castor._outside import OutsideUses
from castor._precision import Cast, cast_inputs, cast_outputs_to_fp32, dtype_of
from castor._state_dict import connect_state_dict
from castor._units import Unit, find_units

if TYPE_CHECKING:
    from castor.booster.plugin import Plugin


def boost_pair(model: nn.Module, optimizer: torch.optim.Optimizer, plugin: Plugin) -> None:
    """An error leaves both as they were."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    rule = rule_of(type(optimizer))
    groups = groups_of(optimizer, rule, names)
    check_free(names)
    check_parameters(names)
    check_all_have_groups(groups, names)
    share_gradient_hooks(names)
    units = find_units(model)
    cast = Cast(model, dtype_of(plugin.precision)) if plugin.precision else None
    try:
        session = session_of(names, units, cast, plugin, rule, groups)
    except BaseException:
        if cast:
            cast.undo()
        raise
    SESSIONS.add(session)
    change_class(optimizer)
    optimizer.castor_rule, optimizer.castor_names, optimizer.castor_groups = rule, names, groups
    optimizer.castor_session = session
    give_places(names, session)
    change_methods(model, optimizer, session)
    connect_state_dict(model)
    open_passes = connect_units(units, session)
    follow_before_training(model, names, open_passes, optimizer if plugin.micro_batches else None)
    if plugin.precision in ("bf16", "fp16"):
        cast_inputs(model, dtype_of(plugin.precision))
    if plugin.force_outputs_fp32:
        cast_outputs_to_fp32(model)
    optimizer.castor_first_step = OutsideUses(model, units, open_passes, session, plugin.debug)


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
