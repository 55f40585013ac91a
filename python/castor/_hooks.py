# SPDX-License-Identifier: Apache-2.0
"""The forward hooks that bring a unit's passes to the core."""

from __future__ import annotations

import torch
from torch import nn

from castor import _core


class UnitHooks:
    """The hooks around the forward passes of a unit, which may be nested (recursion, recompute).

    order: the hooks of all units whose passes are open, the innermost last.
    """

    def __init__(self, session: _core.Session, number: int, order: list[UnitHooks]):
        self.session = session
        self.number = number
        self.order = order
        self.passes: list[_core.UnitPass | None] = []

    def __deepcopy__(self, memo: dict) -> UnitHooks:
        """Copies of a model lose their hooks (plain_copy)."""
        return self

    def attach(self, module: nn.Module) -> None:
        module.register_forward_pre_hook(self.before, with_kwargs=True)
        module.register_forward_hook(self.after, with_kwargs=True, always_call=True)

    def attach_within(self, module: nn.Module) -> None:
        """For a module that may be a unit of its own: the unit is fetched after that one, and released before it."""
        module.register_forward_pre_hook(self.before, with_kwargs=True)
        module.register_forward_hook(self.after, with_kwargs=True, always_call=True, prepend=True)

    @torch._disable_dynamo
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        self.order.append(self)
        self.passes.append(None)  # what enter() refuses ends in after() too
        self.passes[-1] = self.session.enter(self.number, args, kwargs)

    @torch._disable_dynamo
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> object:
        """A pass without a result was ended by an exception: destroying it releases the unit. There is none where another
        hook's exception came first."""
        if not self.passes:
            return result
        del self.order[last_index(self.order, self)]
        unit_pass = self.passes.pop()
        return result if unit_pass is None or result is None else unit_pass.end(result)


def last_index(items: list, item: object) -> int:
    return len(items) - 1 - items[::-1].index(item)


def end_abandoned(order: list[UnitHooks]) -> None:
    """Ctrl-C in a forward pass calls no hook, so its units are still open when the next one begins."""
    while order:
        order.pop().passes.pop()


def connect_units(units: list, session: _core.Session) -> list[UnitHooks]:
    """Of each unit its hooks."""
    order: list[UnitHooks] = []
    all_hooks = [UnitHooks(session, number, order) for number in range(len(units))]
    for unit, hooks in zip(units, all_hooks):
        hooks.attach(unit.module)
    return all_hooks
