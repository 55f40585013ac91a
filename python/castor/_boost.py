# SPDX-License-Identifier: Apache-2.0
"""Boosting: a session around a model and its optimizer, which stay the same objects."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from castor import _core
from castor._access import give_places
from castor._boosted import Groups, change_class, check_all_have_groups, check_not_boosted, groups_of, take_state
from castor._buffers import BuffersFromMeta
from castor._debug import check_modes
from castor._forks import SESSIONS
from castor._guards import check_buffers, check_free, check_modules, check_one_rank, check_parameters
from castor._hooks import Passes, connect_units, share_gradient_hooks
from castor._lazy_tensors import built_lazily
from castor._messages import report
from castor._model import BeforeTraining, change_methods
from castor._outside import OutsideUses
from castor._placing import Placeholders, prepare_allocator, training_device
from castor._precision import connect_precision, dtype_of
from castor._quantized import scales_of
from castor._rules import max_norm_of, python_names, rule_of
from castor._shortage import explain_shortages
from castor._state_dict import connect_state_dict
from castor._stored import names_of_stored
from castor._units import Unit, as_lists, find_units
from castor._versions import Read, evaluate

if TYPE_CHECKING:
    from castor.booster._plugin import Plugin


def boost_pair(
    model: nn.Module, optimizer: torch.optim.Optimizer, plugin: Plugin, device: str | torch.device | None = None
) -> None:
    """An error leaves both as they were. device: see training_device."""
    if plugin.debug:
        check_modes()
    check_modules(model)
    names = names_of_stored(model)
    check_buffers(model, names)
    with built_lazily(names) as built:
        groups = checked_groups(optimizer, names, built)
        states = states_of(optimizer)  # while its parameters have their memory
        device = training_device(device, model)
        prepare_allocator(device)
        buffers = BuffersFromMeta(model)
        try:
            placeholders = Placeholders(model, dtype_of(plugin.precision) if plugin.precision else None, device)
        except BaseException:
            buffers.undo()
            raise
        names = names_of_stored(model)  # of tensors on the device
        units = find_units(model, plugin.units)
        share_gradient_hooks(names)
        messages = _core.Messages()
        try:
            with python_names(rule_of(optimizer)):
                session = session_of(names, units, placeholders, optimizer, plugin, groups, messages)
            for parameter, read in built.items():
                session.load([(names[parameter], evaluate([read])[0])])
        except BaseException:
            placeholders.undo()
            buffers.undo()
            raise
        finally:
            report(messages)
    SESSIONS.add(session)
    if "device_budget" in plugin.options:
        explain_shortages(session, device)
    waiting = {names[parameter] for parameter in placeholders.waiting() - built.keys()}
    passes = Passes(session, units, give_places(names, session, waiting), lambda: waiting | buffers.missing())
    buffers.follow()
    take_optimizer(optimizer, session, names, groups, states, messages)
    optimizer.castor_scales = scales_of(model)
    change_methods(model, optimizer, session)
    connect_state_dict(model)
    connect_units(passes)
    before = BeforeTraining(model, passes)
    model.register_forward_pre_hook(before.check, prepend=True)
    connect_precision(model, plugin)
    optimizer.castor_passes = passes
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()  # functions that were compiled before do not know of the hooks
    optimizer.castor_first_step = OutsideUses(model, passes, plugin.debug)


def boost_frozen(model: nn.Module, plugin: Plugin, device: str | torch.device | None = None) -> None:
    """A model that is not trained, under the plugin's budgets. As boost_pair, and freezes the parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.requires_grad_(False)
    try:
        boost_pair(model, torch.optim.SGD([{"params": list(model.parameters())}], lr=0.0), plugin, device)
    except BaseException:
        for parameter in trained:
            parameter.requires_grad_(True)
        raise


def checked_groups(
    optimizer: torch.optim.Optimizer, names: dict[nn.Parameter, str], built: dict[nn.Parameter, Read]
) -> Groups:
    """built: what parameters are to hold that were built lazily."""
    check_not_boosted(optimizer, names)
    groups = groups_of(optimizer, rule_of(optimizer), names)
    check_one_rank()
    check_free(names)
    check_parameters({parameter: name for parameter, name in names.items() if parameter not in built})
    check_all_have_groups(groups, names)
    return groups


def take_optimizer(
    optimizer: torch.optim.Optimizer,
    session: _core.Session,
    names: dict[nn.Parameter, str],
    groups: Groups,
    states: dict[nn.Parameter, dict],
    messages: _core.Messages,
) -> None:
    rule = rule_of(optimizer)
    optimizer.state.clear()
    change_class(optimizer)
    optimizer.castor_rule, optimizer.castor_names, optimizer.castor_groups = rule, names, groups
    optimizer.castor_session, optimizer.castor_messages = session, messages
    optimizer.castor_seen, optimizer.castor_outcome, optimizer.castor_has_told = [], (False, None), False
    optimizer.castor_trained = {name for parameter, name in names.items() if parameter.requires_grad}
    for parameter, state in states.items():
        take_state(optimizer, parameter, state)


def states_of(optimizer: torch.optim.Optimizer) -> dict[nn.Parameter, dict]:
    """Of an optimizer that has made steps: its states go on with the session, which keeps them."""
    states = optimizer.states() if hasattr(optimizer, "states") else optimizer.state
    return {parameter: state for parameter, state in states.items() if any(value is not None for value in state.values())}


def options_of(optimizer: torch.optim.Optimizer, plugin: Plugin) -> dict[str, str]:
    """Those of the core. An optimizer of castor.nn may keep states on NVMe."""
    from castor.booster._options import text_of, warn_of

    folder = optimizer.nvme_folder() if hasattr(optimizer, "nvme_folder") else None
    of_optimizer = {"nvme": text_of([folder]), "nvme_offload_fraction": str(optimizer.nvme_offload_fraction)} if folder else {}
    options = of_optimizer | plugin.options
    for name, why in idle_options(options, plugin):
        warn_of(plugin, name, why, n_calls=4)  # Booster.boost, boost_pair, session_of, and this
    return options


def idle_options(options: dict[str, str], plugin: Plugin) -> Iterator[tuple[str, str]]:
    """Of the given ones, those that others leave without effect, and why."""
    if "nvme" not in options:
        yield from ((name, "no folder is named by nvme") for name in ("nvme_budget", "io_timeout", "durability") if name in options)
    if "rounding_seed" in options and options.get("moments", "fp32") == "fp32":
        yield "rounding_seed", "moments are fp32, and rounded to the nearest"
    if options.get("speculative_updates") == "on" and not plugin.max_norm:
        yield "speculative_updates", "without max_norm no update waits for a norm"


def session_of(
    names: dict[nn.Parameter, str],
    units: list[Unit],
    placeholders: Placeholders,
    optimizer: torch.optim.Optimizer,
    plugin: Plugin,
    groups: Groups,
    messages: _core.Messages,
) -> _core.Session:
    params, of_units = as_lists(names, units)
    it = weakref.ref(optimizer)  # which owns the session
    return _core.boost(
        params,
        [placeholders.first_values.get(parameter) for parameter in names],
        of_units,
        plugin.name,
        options_of(optimizer, plugin),
        rule_of(optimizer),
        groups,
        max_norm_of(plugin, optimizer),
        plugin.micro_batches or 0,
        plugin.scaler if any(parameter.dtype == torch.float16 for parameter in names) else {},
        messages,
        lambda: it().castor_follow_groups(),
    )
