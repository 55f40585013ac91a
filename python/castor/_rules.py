# SPDX-License-Identifier: Apache-2.0
"""What optimizers mean to the core: the rule, and the values of a group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from castor import _core
from castor._errors import Error
from castor._values import check_value, is_number

if TYPE_CHECKING:
    from castor.booster._plugin import Plugin

RULES = {torch.optim.AdamW: "adamw", torch.optim.Adam: "adam", torch.optim.SGD: "sgd"}
MOMENTS = ("lr", "eps", "weight_decay")
# Of each rule: the values of a group that it reads, and those with another name in groups.
TAKEN = {
    "adamw": MOMENTS,
    "adam": MOMENTS,
    "lamb": MOMENTS,
    "sgd": ("lr", "momentum", "weight_decay"),
    "lars": ("lr", "momentum", "weight_decay", "trust_coefficient", "eps"),
}
RENAMED = {"lars": {"trust_coefficient": "eeta", "eps": "epsilon"}}
ONE_MOMENT = ("sgd", "lars")
# Values that the core knows one setting of.
FIXED = {
    "amsgrad": False,
    "maximize": False,
    "capturable": False,
    "differentiable": False,
    "dampening": 0,
    "bias_correction": True,
    "adam_w_mode": True,
    "wd_after_momentum": False,
    "grad_averaging": True,
    "use_nvlamb": False,
}


def rule_of(optimizer: torch.optim.Optimizer) -> str:
    """The rule of an optimizer by its name in the core."""
    rule = getattr(optimizer, "core_rule", None) or RULES.get(type(optimizer))
    if rule is None:
        its_class = f"{type(optimizer).__module__}.{type(optimizer).__name__}"
        raise Error(
            f"the optimizer is a {its_class}; Castor trains by AdamW, Adam and SGD of torch.optim, and by those of "
            "castor.nn.optimizer",
            "usage",
        )
    return rule


def max_norm_of(plugin: Plugin, optimizer: torch.optim.Optimizer) -> float:
    """The norm that gradients are clipped to, 0 for none: the plugin's, or the optimizer's, as FusedLAMB has one."""
    return plugin.max_norm or getattr(optimizer, "max_grad_norm", 0.0)


def names_of_values(rule: str) -> list[str]:
    """As groups have them."""
    names = [RENAMED.get(rule, {}).get(name, name) for name in TAKEN[rule]]
    return names if rule in ONE_MOMENT else [*names, "betas"]


def values_of(rule: str, group: dict, bias_correction: bool | None = None) -> dict[str, float]:
    """The values of a group as the core takes them. bias_correction: taken as it is, in place of the group's."""
    given = group if bias_correction is None else {**group, "bias_correction": True}
    if bias_correction is not None:
        check_value("bias_correction", bias_correction, "True or False", isinstance(bias_correction, bool))
    for name, setting in FIXED.items():
        if given.get(name, setting) != setting:
            raise Error(f"the optimizer has {name}={given[name]}; Castor trains with {name}={setting}", "usage", name)
    if rule == "adam" and given.get("decoupled_weight_decay"):
        raise Error("the optimizer is an Adam with decoupled_weight_decay=True; take AdamW", "usage", "optimizer")
    for name in names_of_values(rule):
        check_type(name, given.get(name))
    values = {name: float(given[known_as]) for name, known_as in zip(TAKEN[rule], names_of_values(rule))}
    if rule in ONE_MOMENT:
        nesterov = given.get("nesterov", False)
        check_value("nesterov", nesterov, "True or False", nesterov in (True, False))
        return {**values, "nesterov": float(nesterov)}
    return {**values, "beta1": float(given["betas"][0]), "beta2": float(given["betas"][1])}


def check_group(rule: str, group: dict, bias_correction: bool | None = None) -> None:
    """Errors: usage, for values that no step takes."""
    with python_names(rule):
        _core.check_rule(rule, values_of(rule, group, bias_correction))


def check_type(name: str, value: object) -> None:
    if isinstance(value, torch.Tensor):
        raise Error(f"the optimizer's {name} is a tensor; give a number", "usage", name)
    if name == "betas":
        is_pair = isinstance(value, (tuple, list)) and len(value) == 2
        check_value(name, value, "two numbers", is_pair and all(map(is_number, value)))
    else:
        check_value(name, value, "a number", is_number(value))


@contextlib.contextmanager
def python_names(rule: str) -> Iterator[None]:
    """Errors of the core about a value of the rule name it as groups do."""
    try:
        yield
    except Error as error:
        known_as = {"beta1": "betas", "beta2": "betas", **RENAMED.get(rule, {})}.get(error.option)
        if known_as is None:
            raise
        raise Error(str(error).replace(error.option, known_as, 1), error.kind, known_as) from None


def to_torch(rule: str, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor | None, n_updates: int) -> dict:
    """The state of a parameter as torch.optim has it."""
    if rule in ONE_MOMENT:
        return {"momentum_buffer": exp_avg}
    return {"step": torch.tensor(float(n_updates)), "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}


def no_moments(rule: str, parameter: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None, int]:
    """Those of a parameter before its first update."""
    zeros = torch.zeros(parameter.shape)
    return zeros, None if rule in ONE_MOMENT else zeros, 0


def from_torch(rule: str, state: dict) -> tuple[torch.Tensor, torch.Tensor | None, int]:
    if rule in ONE_MOMENT:
        return state["momentum_buffer"].float().cpu(), None, 1
    return state["exp_avg"].float().cpu(), state["exp_avg_sq"].float().cpu(), int(state["step"])
