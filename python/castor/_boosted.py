# SPDX-License-Identifier: Apache-2.0
"""Model and optimizer under a session: the hooks of units, and the optimizer whose step is the session's."""

from __future__ import annotations

import torch
from torch import nn

from castor import _core
from castor._errors import Error
from castor._units import Unit


class UnitHooks:
    """The hooks around the forward passes of a unit, which may be nested (recursion, recompute)."""

    def __init__(self, session: _core.Session, number: int):
        self.session = session
        self.number = number
        self.passes: list[_core.UnitPass | None] = []

    @torch._disable_dynamo
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        self.passes.append(self.session.enter(self.number, args, kwargs))

    @torch._disable_dynamo
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> object:
        """A pass without a result was ended by an exception: destroying it releases the unit."""
        unit_pass = self.passes.pop()
        return result if unit_pass is None or result is None else unit_pass.end(result)


def connect_units(units: list[Unit], session: _core.Session) -> None:
    for number, unit in enumerate(units):
        hooks = UnitHooks(session, number)
        unit.module.register_forward_pre_hook(hooks.before, with_kwargs=True)
        unit.module.register_forward_hook(hooks.after, with_kwargs=True, always_call=True)


def rule_of(kind: type, group: dict) -> tuple[str, dict[str, float]]:
    """The rule of an optimizer of class `kind` by its name in the core, and its values in `group`."""
    if kind in (torch.optim.AdamW, torch.optim.Adam):
        values = {"lr": group["lr"], "eps": group["eps"], "weight_decay": group["weight_decay"]}
        return kind.__name__.lower(), {**values, "beta1": group["betas"][0], "beta2": group["betas"][1]}
    if kind is torch.optim.SGD:
        return "sgd", {name: float(group[name]) for name in ("lr", "momentum", "weight_decay", "nesterov")}
    raise Error(f"the optimizer is a {kind.__name__}; Castor trains by AdamW, Adam and SGD of torch.optim", "usage")


class BoostedOptimizer:
    """What an optimizer does under a session in place of its own work. The class of a boosted optimizer is made from
    this one and its own, so that isinstance stays true."""

    castor_class: type
    castor_session: _core.Session
    castor_has_gradients = False  # since the last step

    def castor_rule(self) -> tuple[str, dict[str, float]]:
        if len(self.param_groups) > 1:
            raise Error("the optimizer has several parameter groups, which Castor does not take yet", "usage")
        return rule_of(self.castor_class, self.param_groups[0])

    def backward(self, loss: torch.Tensor) -> None:
        self.castor_has_gradients = True
        self.castor_session.backward(loss)

    def step(self, closure=None):
        if closure is not None:
            raise Error("a closure is not taken; call backward and then step", "usage")
        self.castor_session.step(*self.castor_rule())
        self.castor_has_gradients = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients since the last step; after a step there are none."""
        if self.castor_has_gradients:
            self.castor_session.zero_grad()
        self.castor_has_gradients = False


def change_class(optimizer: torch.optim.Optimizer) -> None:
    """Makes `optimizer` a boosted one, in place."""
    own = type(optimizer)
    optimizer.castor_class = own
    optimizer.__class__ = type(own.__name__, (BoostedOptimizer, own), {})
