# SPDX-License-Identifier: Apache-2.0
"""The optimizer under a session, whose step is the session's."""

from __future__ import annotations

import torch

from castor import _core
from castor._errors import Error
from castor._outside import OutsideUses


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
    castor_first_step: OutsideUses | None = None

    def castor_rule(self) -> tuple[str, dict[str, float]]:
        if len(self.param_groups) > 1:
            raise Error("the optimizer has several parameter groups, which Castor does not take yet", "usage")
        return rule_of(self.castor_class, self.param_groups[0])

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step(self, closure=None):
        if closure is not None:
            raise Error("a closure is not taken; call backward and then step", "usage")
        if self.castor_session.step_under_way():
            self.castor_session.step(*self.castor_rule())
            if self.castor_first_step:
                self.castor_first_step.end()
                self.castor_first_step = None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients since the last step; after a step there are none."""
        if self.castor_session.step_under_way():
            self.castor_session.zero_grad()


def change_class(optimizer: torch.optim.Optimizer) -> None:
    """Makes `optimizer` a boosted one, in place."""
    own = type(optimizer)
    optimizer.castor_class = own
    optimizer.__class__ = type(own.__name__, (BoostedOptimizer, own), {})
