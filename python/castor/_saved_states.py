# SPDX-License-Identifier: Apache-2.0
"""The state_dict of an optimizer, checked before anything is loaded from it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from castor._errors import Error
from castor._rules import ONE_MOMENT, names_of_values

MOMENTS = ("exp_avg", "exp_avg_sq")


def saved_parts(rule: str, groups: list[dict], state_dict: Any) -> tuple[list[dict], dict[nn.Parameter, dict]]:
    """The values of each of `groups`, and the states that are there, by parameter. Places in the groups tell which."""
    check_parts(state_dict)
    given = state_dict["param_groups"]
    sizes, given_sizes = ([len(group["params"]) for group in each] for each in (groups, given))
    if sizes != given_sizes:
        raise Error(f"the state_dict has groups of {given_sizes} parameters, and the optimizer of {sizes}", "usage")
    for group in given:
        if missing := [name for name in names_of_values(rule) if name not in group]:
            raise Error(f"the state_dict is of another optimizer: its groups have no {', '.join(missing)}", "usage")
    numbers = {p: number for group, one in zip(groups, given) for p, number in zip(group["params"], one["params"])}
    found = {parameter: state_dict["state"].get(number) for parameter, number in numbers.items()}
    states = {parameter: state for parameter, state in found.items() if has_values(state)}
    for parameter, state in states.items():
        check_state(rule, parameter, state, f"the state_dict's state of parameter {numbers[parameter]}")
    return [{name: value for name, value in group.items() if name != "params"} for group in given], states


def check_parts(state_dict: Any) -> None:
    for name in ("state", "param_groups"):
        if not isinstance(state_dict, dict) or name not in state_dict:
            raise Error(f"the state_dict has no {name}; give what an optimizer's state_dict() returns", "usage")


def has_values(state: dict | None) -> bool:
    """SGD of torch without momentum has states without values."""
    return state is not None and any(value is not None for value in state.values())


def check_state(rule: str, parameter: nn.Parameter, state: dict, which: str) -> None:
    moments = ("momentum_buffer",) if rule in ONE_MOMENT else MOMENTS
    for name in moments if rule in ONE_MOMENT else ("step", *moments):
        if state.get(name) is None:
            raise Error(f"{which} has no {name}; it is of another optimizer", "usage")
    if rule not in ONE_MOMENT and not float(state["step"]) >= 0:
        raise Error(f"{which} has step {state['step']}; it counts updates, from 0 on", "usage")
    for name in (*moments, "master"):
        values = state.get(name)
        if values is not None and (not isinstance(values, torch.Tensor) or values.shape != parameter.shape):
            found = f"sizes {tuple(values.shape)}" if isinstance(values, torch.Tensor) else f"type {type(values).__name__}"
            raise Error(f"{which} has {name} of {found}, and the parameter has sizes {tuple(parameter.shape)}", "usage")
