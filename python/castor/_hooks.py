# SPDX-License-Identifier: Apache-2.0
"""The forward hooks that bring a unit's passes to the core."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from castor import _core
from castor._access import Lending, not_pickled
from castor._eager import eager
from castor._errors import Error
from castor._guards import check_all_have_values
from castor._units import Unit


@dataclass
class OpenPass:
    """A forward pass that a unit is in. Its attributes go in their order, so that the pass ends before its session where
    both are garbage."""

    number: int  # of the unit
    unit_pass: _core.UnitPass | None
    session: _core.Session
    handled: BaseException | None = None  # by the program when the pass began
    thread: int | None = None  # that it runs in


@dataclass
class Passes:
    """What the units of a model have in common. open: their passes, the innermost last. kept: those of KeptUnits, which are
    around the others, and to the end of the step. hidden: those, to the end of the step or the next pass of the unit, whose
    result leads to no graph."""

    session: _core.Session
    units: list[Unit]
    lending: Lending
    waiting: Callable[[], set[str]] | None  # parameters and buffers without values; None once all have some
    open: list[OpenPass] = field(default_factory=list)
    kept: list[OpenPass] = field(default_factory=list)
    hidden: dict[int, OpenPass] = field(default_factory=dict)
    has_told: bool = False  # of a hidden pass
    with_hooks: set[int] = field(default_factory=set)  # units of which begin_backward is called

    def end_abandoned(self) -> None:
        """Ctrl-C in a forward pass calls no hook, so its units are still open when the next one begins."""
        for i in range(len(self.open) - 1, -1, -1):
            if not goes_on_elsewhere(self.open[i].thread):
                self.open.pop(i)

    def close(self, number: int) -> OpenPass | None:
        """Takes the innermost open pass of a unit: the last of all, unless an exception cut others short."""
        thread = threading.get_ident()
        for i in range(len(self.open) - 1, -1, -1):
            if self.open[i].number == number and self.open[i].thread == thread:
                return self.open.pop(i)
        return None

    def check_values(self) -> None:
        check_all_have_values(self.waiting())
        self.waiting = None

    def check_alone(self) -> None:
        """Raises castor.Error where another thread is in a forward pass. One of autograd goes on for a thread that waits."""
        if any(goes_on_elsewhere(one.thread) for one in self.open) and not in_backward():
            raise Error(
                "another thread is in a forward pass of the model, and parameters are moved for one pass at a time; let the "
                "threads take turns (threading.Lock), or give each a model of its own",
                "usage",
            )

    def keep(self, number: int) -> None:
        self.kept.append(OpenPass(number, self.session.enter(number, (), {}), self.session))
        self.notice_gradients_of(number)

    def hide(self, hidden: OpenPass) -> None:
        self.hidden[hidden.number] = hidden
        self.notice_gradients_of(hidden.number)
        if not self.has_told:
            self.has_told = True
            logging.getLogger("castor").warning(
                "%s hands on what it computes in a way that Castor does not see (not in its result or arguments), so its "
                "parameters stay in memory until the step ends; where that takes too much, name the modules within it in units=",
                self.units[hidden.number].name or "the model",
            )

    def end_kept(self) -> None:
        while self.kept:
            self.kept.pop()

    def end_step(self) -> None:
        self.end_kept()
        self.hidden.clear()

    def renew(self) -> None:
        """zero_grad has ended all passes in the core. There may be a graph of units that were kept, whose backward pass is
        still to come. To the core the model's forward pass has ended when that of one of its units has."""
        numbers = [one.number for one in (*self.kept, *self.hidden.values())]
        self.end_step()
        for number in numbers:
            with contextlib.suppress(Error):
                self.keep(number)
        others = [number for number in range(len(self.units)) if number not in self.opened()]
        if self.kept and others:
            with contextlib.suppress(Error):
                self.check_beside(others[:1])

    def opened(self) -> set[int]:
        """The units that are in memory now."""
        return {one.number for one in (*self.open, *self.kept)}

    def keeps(self, numbers: Iterable[int]) -> bool:
        """Whether one of these units is kept."""
        return any(one.number in numbers for one in self.kept)

    def notice_gradients_of(self, number: int) -> None:
        """No tensor tells that backward gets to a unit that is kept or hidden, before gradients of its parameters do."""
        if number in self.with_hooks:
            return
        self.with_hooks.add(number)
        passes = weakref.ref(self)  # the core owns the parameters

        def begin_backward(gradient: torch.Tensor) -> None:
            if of := passes():
                of.begin_backward(number)

        for parameter in self.units[number].parameters:
            if parameter.requires_grad:
                parameter.register_hook(begin_backward)

    def begin_backward(self, number: int) -> None:
        of_unit = [one for one in (*self.hidden.values(), *self.kept) if one.number == number]
        if of_unit and of_unit[-1].unit_pass:
            of_unit[-1].unit_pass.begin_backward()

    def check_beside(self, numbers: Iterable[int]) -> None:
        """Raises castor.Error where one of these units has no room beside those that are open now."""
        opened = self.opened()
        for number in numbers:
            if number not in opened:
                self.session.enter(number, (), {})  # without an owner, so it ends at once


def goes_on_elsewhere(thread: int | None) -> bool:
    """Whether it is another thread than this one, and has not ended."""
    return thread != threading.get_ident() and any(living.ident == thread for living in threading.enumerate())


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


class UnitHooks:
    """The hooks around the forward passes of a unit, which may be nested (recursion, recompute)."""

    def __init__(self, passes: Passes | None, number: int):
        self.passes = passes  # None: of a copied module, which is no unit
        self.number = number

    def __deepcopy__(self, memo: dict) -> UnitHooks:
        return UnitHooks(None, self.number)

    def __getstate__(self) -> dict:
        if self.passes is not None:
            name = self.passes.units[self.number].name or "the model"
            raise Error(not_pickled(f"module {name}"), "usage")
        return self.__dict__

    def attach(self, module: nn.Module, within: bool = False) -> tuple[RemovableHandle, RemovableHandle]:
        """Hooks that the module has already may read its parameters. within: `module` may be a unit of its own, after which
        this one is fetched, and before which it is released."""
        return (
            module.register_forward_pre_hook(self.before, with_kwargs=True, prepend=not within),
            module.register_forward_hook(self.after, with_kwargs=True, always_call=True, prepend=within),
        )

    @eager
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        passes, number = self.passes, self.number
        if passes is None:
            return
        if passes.waiting:
            passes.check_values()
        if passes.hidden:
            passes.hidden.pop(number, None)
        open_pass = OpenPass(number, None, passes.session, sys.exc_info()[1], threading.get_ident())
        passes.open.append(open_pass)  # what is refused here ends in after() too
        if len(passes.open) > 1:
            passes.check_alone()
        if passes.lending.n_parameters:
            check_all_gathered(passes.units[number])
        elif not (passes.kept and passes.keeps([number])):
            open_pass.unit_pass = passes.session.enter(number, args, kwargs)

    @eager
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> object:
        """A pass that was ended by an exception has no result: destroying it releases the unit. There is none where another
        hook's exception came first."""
        if self.passes is None:
            return result
        open_pass = self.passes.close(self.number)
        unit_pass = open_pass.unit_pass if open_pass else None
        if unit_pass is None or (result is None and sys.exc_info()[1] is not open_pass.handled):
            return result
        given, is_open = unit_pass.end(result, args, kwargs)
        if is_open:
            self.passes.hide(open_pass)
        return given


class KeptUnits:
    """Units whose parameters the program uses after the forward pass of a module too, as those of a head that a loss uses: they
    are in memory from the begin of that pass to the end of the step, or to the begin of the next such pass."""

    def __init__(self, passes: Passes | None):
        self.passes = passes  # None: of a copied module
        self.numbers: list[int] = []

    def __deepcopy__(self, memo: dict) -> KeptUnits:
        return KeptUnits(None)

    def attach(self, module: nn.Module) -> None:
        module.register_forward_pre_hook(self.before, prepend=True)

    def add(self, number: int) -> None:
        """Raises castor.Error, and adds nothing, where there is no room for it beside any other unit."""
        self.passes.keep(number)
        try:
            self.passes.check_beside(range(len(self.passes.units)))
        except Error:
            self.passes.kept.pop()
            self.passes.session.enter(number, (), {})  # ends with its pass: after a refusal the core hears of no end before
            raise
        self.numbers.append(number)

    @eager
    def before(self, module: nn.Module, args: tuple) -> None:
        if self.passes is None or self.passes.lending.n_parameters or in_backward():
            return
        if self.passes.keeps(self.numbers):
            self.passes.end_kept()
        for number in self.numbers:
            self.passes.keep(number)


def share_gradient_hooks(parameters: Iterable[nn.Parameter]) -> None:
    """register_post_accumulate_grad_hook() adds to a dictionary of the parameter, whose hooks the core calls."""
    for parameter in parameters:
        if parameter.requires_grad and parameter._post_accumulate_grad_hooks is None:
            parameter._post_accumulate_grad_hooks = OrderedDict()


def check_all_gathered(unit: Unit) -> None:
    """Within castor.gathered() no unit is fetched."""
    if torch.is_grad_enabled():
        why = "a forward pass with gradients cannot begin within castor.gathered(); leave it, or use torch.no_grad()"
        raise Error(why, "usage")
    for parameter in unit.parameters:
        if not parameter.castor_place.n_gathered:
            raise Error(
                "within castor.gathered() only modules can run whose parameters are all gathered, and "
                f"{parameter.castor_place.name} is not; gather the model, or leave the context",
                "usage",
            )


def connect_units(passes: Passes) -> None:
    for number, unit in enumerate(passes.units):
        UnitHooks(passes, number).attach(unit.module)
