# SPDX-License-Identifier: Apache-2.0
"""The forward hooks that bring a unit's passes to the core."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from castor import _core


@dataclass
class OpenPass:
    """A forward pass that a unit is in. Its attributes go in their order, so that the pass ends before its session where
    both are garbage."""

    number: int  # of the unit
    unit_pass: _core.UnitPass | None
    session: _core.Session


class UnitHooks:
    """The hooks around the forward passes of a unit, which may be nested (recursion, recompute).

    open_passes: of all units, the innermost last.
    """

    def __init__(self, session: _core.Session, number: int, open_passes: list[OpenPass]):
        self.session = session
        self.number = number
        self.open_passes = open_passes

    def __deepcopy__(self, memo: dict) -> UnitHooks:
        """Copies of a model lose their hooks (plain_copy)."""
        return self

    def attach(self, module: nn.Module, within: bool = False) -> None:
        """Hooks that the module has already may read its parameters. within: `module` may be a unit of its own, after which
        this one is fetched, and before which it is released."""
        module.register_forward_pre_hook(self.before, with_kwargs=True, prepend=not within)
        module.register_forward_hook(self.after, with_kwargs=True, always_call=True, prepend=within)

    @torch._disable_dynamo
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        self.open_passes.append(OpenPass(self.number, None, self.session))  # what enter() refuses ends in after() too
        self.open_passes[-1].unit_pass = self.session.enter(self.number, args, kwargs)

    @torch._disable_dynamo
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> object:
        """A pass without a result was ended by an exception: destroying it releases the unit. There is none where another
        hook's exception came first."""
        mine = [i for i, open_pass in enumerate(self.open_passes) if open_pass.number == self.number]
        unit_pass = self.open_passes.pop(mine[-1]).unit_pass if mine else None
        return result if unit_pass is None or result is None else unit_pass.end(result)


def share_gradient_hooks(parameters: Iterable[nn.Parameter]) -> None:
    """register_post_accumulate_grad_hook() adds to a dictionary of the parameter, whose hooks the core calls."""
    for parameter in parameters:
        if parameter.requires_grad and parameter._post_accumulate_grad_hooks is None:
            parameter._post_accumulate_grad_hooks = OrderedDict()


def end_abandoned(open_passes: list[OpenPass]) -> None:
    """Ctrl-C in a forward pass calls no hook, so its units are still open when the next one begins."""
    while open_passes:
        open_passes.pop()


def connect_units(units: list, session: _core.Session) -> list[OpenPass]:
    """The list of open passes of all units."""
    open_passes: list[OpenPass] = []
    for number, unit in enumerate(units):
        UnitHooks(session, number, open_passes).attach(unit.module)
    return open_passes
