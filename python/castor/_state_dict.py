# SPDX-License-Identifier: Apache-2.0
"""state_dict and load_state_dict of boosted modules: of the whole model, and of any part of it."""

from __future__ import annotations

import contextlib
import weakref

import torch
from torch import nn

from castor._access import is_boosted_parameter, place_of, weight_of
from castor._errors import Error
from castor._stored import difference, stored


def connect_state_dict(model: nn.Module) -> None:
    for module in model.modules():
        if module._parameters:
            module.register_state_dict_post_hook(give_weights)
            module.register_load_state_dict_pre_hook(take_weights)
            module.register_load_state_dict_post_hook(were_taken)


def own_parameters(module: nn.Module):
    """Of each boosted parameter that is the module's own: its name in it, itself, and where its first tensor is."""
    for name, parameter in module._parameters.items():
        if parameter is not None and is_boosted_parameter(parameter):
            yield name, parameter, next(iter(stored(parameter).values())).castor_place


def give_weights(module: nn.Module, state_dict: dict, prefix: str, local_metadata: dict) -> None:
    """A tensor with memory in place of each that has none, the same one for all names of a tied parameter. The parameters
    themselves (keep_vars) stay."""
    for name, parameter, place in own_parameters(module):
        if state_dict.get(prefix + name, parameter) is parameter:
            continue
        weight = place.given_to(state_dict)
        if weight is None:
            weight = weight_of(parameter)
            place.given = (weakref.ref(state_dict), weakref.ref(weight))
        state_dict[prefix + name] = weight


def take_weights(
    module: nn.Module,
    state_dict: dict,
    prefix: str,
    local_metadata: dict,
    strict: bool,
    missing_keys: list,
    unexpected_keys: list,
    error_msgs: list,
) -> None:
    taken = vars(module)["_castor_taken"] = set()  # anew: a load that failed has left one
    for name, parameter, _ in own_parameters(module):
        key = prefix + name
        if key not in state_dict:
            continue
        values = state_dict.pop(key)
        taken.add(key)
        if why := difference(parameter, values):
            error_msgs.append(f"{key} {why}")
        else:
            give_parts(parameter, values)


def give_parts(parameter: torch.Tensor, values: torch.Tensor) -> None:
    """Of which none differs (difference)."""
    for kept, new in zip(stored(parameter).values(), stored(values).values()):
        give_weight(kept, new)


def give_weight(parameter: torch.Tensor, values: torch.Tensor) -> None:
    session, name = place_of(parameter)
    if not holds(parameter, values):
        session.load([(name, values)])
    parameter.castor_place.waiting.discard(name)


def holds(parameter: torch.Tensor, values: torch.Tensor) -> bool:
    """True where a 16-bit parameter has these values already: its master, which has more bits, stays as it is."""
    session, name = place_of(parameter)
    if parameter.dtype == torch.float32 or values.dtype != parameter.dtype or name in parameter.castor_place.waiting:
        return False
    with contextlib.suppress(Error):  # of one that was written in place; others come again where the values are given
        return torch.equal(values.to("cpu"), session.read_weight(name))
    return False


def were_taken(module: nn.Module, incompatible_keys) -> None:
    taken = vars(module).pop("_castor_taken", set())
    incompatible_keys.missing_keys[:] = [key for key in incompatible_keys.missing_keys if key not in taken]
