# SPDX-License-Identifier: Apache-2.0
"""Parameters that are used outside of their module, as `out_proj` of MultiheadAttention, or by a loss: found in the first step,
and fetched from then on with the module that uses them, or with the one that was called before the loss."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_iter

from castor._debug import ReleasedAccess
from castor._errors import Error
from castor._hooks import KeptUnits, Passes, UnitHooks


@dataclass
class Running:
    """A module whose forward function is being called."""

    module: nn.Module
    args: tuple
    kwargs: dict


class OutsideUses:
    """Watches every operator from the begin of forward passes to their backward passes, until end(). debug: of the whole program,
    as long as the model lives, so that any access to a parameter outside of its module raises castor.Error, also where it has
    memory just then."""

    def __init__(self, model: nn.Module, passes: Passes, debug: bool):
        self.debug = debug
        self.passes = passes
        self.model = model
        self.running: list[Running] = []
        self.in_loss = False  # after a forward pass, and before the backward pass
        self.before_loss = model  # the module of that forward pass
        self.kept: dict[nn.Module, KeptUnits] = {}  # with the forward passes of a module
        self.mode = OperatorWatch(self)
        weakref.finalize(self, self.mode.abandon).atexit = False
        self.released = ReleasedAccess() if debug else None
        self.parameters = {storage_of(parameter): parameter for parameter in model.parameters()}
        self.units_of: dict[nn.Parameter, list[int]] = {}
        for number, unit in enumerate(passes.units):
            for parameter in unit.parameters:
                self.units_of.setdefault(parameter, []).append(number)
        self.handles = []
        for module in model.modules():
            self.handles.append(module.register_forward_pre_hook(self.before, with_kwargs=True, prepend=True))
            self.handles.append(module.register_forward_hook(self.after, with_kwargs=True, always_call=True))
        if debug:
            weakref.finalize(self, self.released.abandon).atexit = False
            self.released.__enter__()
            self.mode.__enter__()

    def __deepcopy__(self, memo: dict) -> OutsideUses:
        """As UnitHooks."""
        return self

    def end(self) -> None:
        if self.debug:
            return
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.end_loss()
        self.mode.abandon()

    @torch._disable_dynamo
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if in_backward():
            return
        if module is self.model:
            self.running.clear()  # of a pass that Ctrl-C has ended, which calls no hook
            self.end_loss()
        if not self.mode.entered:
            self.mode.__enter__()
        self.running.append(Running(module, args, kwargs))

    @torch._disable_dynamo
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> None:
        if in_backward():
            return
        if self.running:
            self.running.pop()
        if self.running or self.in_loss or not self.mode.entered:
            return
        if leaves_with_gradients(result):
            self.begin_loss(module)
        if self.debug:
            return
        if not self.in_loss:
            self.mode.leave()
        self.mode.compile_after_backward(result)

    def begin_loss(self, after: nn.Module) -> None:
        """Modes of others that were entered before would end first, and each end takes the last of all modes."""
        self.before_loss = after
        of_others = [mode for mode in _get_current_dispatch_mode_stack() if not isinstance(mode, OperatorWatch)]
        self.in_loss = self.debug or not of_others
        if self.in_loss:
            LOSSES.add(self)

    def end_loss(self) -> None:
        self.in_loss = False
        LOSSES.remove(self)
        if not self.debug:
            self.mode.leave()

    def used(self, tensor: torch.Tensor) -> None:
        parameter = self.parameters.get(storage_of(tensor))
        if parameter is None or in_backward() or parameter.castor_place.n_gathered:  # in backward hooks of tensors fetch units
            return
        numbers = self.units_of[parameter]
        if any(one.number in numbers for one in (*self.passes.open, *self.passes.kept)):
            return
        if not (self.running or (self.in_loss and torch.is_grad_enabled())):
            return self.refuse(parameter)
        try:
            self.fetch(numbers[0]) if self.running else self.keep(numbers[0])
        except Error as error:
            raise error.after(f"parameter {parameter.castor_place.name} is used outside of its module") from None

    def refuse(self, parameter: nn.Parameter) -> None:
        if self.debug:
            raise Error(
                f"parameter {parameter.castor_place.name} is used outside of the model's forward passes, where it may have no "
                "memory; do it within castor.gathered(parameter)",
                "usage",
            )

    def fetch(self, number: int) -> None:
        """Fetches the unit with the innermost running module, from now on and at once."""
        within = self.running[-1]
        hooks = UnitHooks(self.passes, number)
        hooks.attach(within.module, within=True)
        hooks.before(within.module, within.args, within.kwargs)
        modules = set(within.module.modules())
        self.passes.check_beside(i for i, unit in enumerate(self.passes.units) if unit.module in modules)

    def keep(self, number: int) -> None:
        """Fetches the unit with the forward pass before the loss, from now on and at once, until the step has ended."""
        if self.before_loss not in self.kept:
            self.kept[self.before_loss] = KeptUnits(self.passes)
            self.kept[self.before_loss].attach(self.before_loss)
        self.kept[self.before_loss].add(number)
        self.passes.check_beside(range(len(self.passes.units)))


class Uncompiled:
    """While one of these holds, compiled functions run as they are written, in the whole process: torch has one setting."""

    n_held = 0
    setting: torch.compiler.set_stance | None = None

    def __init__(self):
        self.holds = "torch._dynamo" in sys.modules  # whose import takes long
        if not self.holds:
            return
        if Uncompiled.n_held == 0:
            Uncompiled.setting = torch.compiler.set_stance("force_eager")
        Uncompiled.n_held += 1

    def release(self) -> None:
        if not self.holds:
            return
        self.holds = False
        Uncompiled.n_held -= 1
        if Uncompiled.n_held == 0:
            Uncompiled.setting.__exit__(None, None, None)

    __del__ = release


class OperatorWatch(TorchDispatchMode):
    """Within it compiled functions run as they are written, so that their operators are seen. They do so until the backward
    pass has ended, or will never come: what is recomputed must be computed as it was."""

    def __init__(self, uses: OutsideUses):
        super().__init__()
        self.uses = weakref.ref(uses)
        self.uncompiled: Uncompiled | None = None
        self.entered = False

    def abandon(self) -> None:
        self.leave()
        self.uses = lambda: None
        self.compile()

    def leave(self) -> None:
        """Where another mode was entered since, this one stays below it until that has left."""
        self.entered = False
        while isinstance(last := _get_current_dispatch_mode(), OperatorWatch) and not last.entered:
            last.__exit__(None, None, None)

    def __enter__(self) -> OperatorWatch:
        if self.uncompiled is None:
            self.uncompiled = Uncompiled()
        self.entered = True
        return super().__enter__()

    def compile(self) -> None:
        if self.uncompiled is not None:
            self.uncompiled.release()
            self.uncompiled = None

    def compile_after_backward(self, result: object) -> None:
        """result: of the forward pass that has ended, whose graph keeps functions uncompiled from now on."""
        of_graph, self.uncompiled = self.uncompiled, None
        for leaf in leaves_with_gradients(result):
            leaf.register_hook(lambda gradient: Variable._execution_engine.queue_callback(of_graph.release))

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Otherwise torch.compile skips for good what it meets here without knowing the stance."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        uses = self.uses()
        if uses and not is_view(func):
            for leaf in tree_iter((args, kwargs)):
                if isinstance(leaf, torch.Tensor):
                    uses.used(leaf)
        return func(*args, **kwargs)


class Losses:
    """Those being computed of models that are watched. While there are any, this is in place of torch.autograd.backward, which
    Tensor.backward calls, and ends them."""

    def __init__(self):
        self.of: weakref.WeakSet[OutsideUses] = weakref.WeakSet()
        self.backward = torch.autograd.backward

    def add(self, uses: OutsideUses) -> None:
        self.of.add(uses)
        if torch.autograd.backward is not self:
            self.backward = torch.autograd.backward
            torch.autograd.backward = self

    def remove(self, uses: OutsideUses) -> None:
        self.of.discard(uses)
        if not self.of and torch.autograd.backward is self:
            torch.autograd.backward = self.backward

    def __call__(self, *args, **kwargs) -> None:
        for uses in list(self.of):
            uses.end_loss()
        return self.backward(*args, **kwargs)


LOSSES = Losses()


def in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


def leaves_with_gradients(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_iter(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def is_view(func: torch._ops.OpOverload) -> bool:
    """Views read no element; what reads the view is seen by itself."""
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
