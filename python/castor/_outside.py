# SPDX-License-Identifier: Apache-2.0
"""Parameters that are used outside of their module, as `out_proj` of MultiheadAttention, or by a loss: found in the first step,
and fetched from then on with the module that uses them, or with the one that was called before the loss."""

from __future__ import annotations

import sys
import threading
import weakref
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode, _get_current_dispatch_mode_stack
from torch.utils._pytree import tree_iter

from castor._debug import ReleasedAccess
from castor._eager import eager
from castor._errors import Error
from castor._guards import storage_of
from castor._hooks import KeptUnits, Passes, UnitHooks, goes_on_elsewhere, in_backward
from castor._stored import all_stored


@dataclass
class Running:
    """A module whose forward function is being called."""

    module: nn.Module
    args: tuple
    kwargs: dict
    thread: int


class OutsideUses:
    """Watches every operator from the first forward pass with gradients to the end of the first step. debug: of the whole
    program, as long as the model lives, so that any access to a parameter outside of its module raises castor.Error, also where
    it has memory just then."""

    def __init__(self, model: nn.Module, passes: Passes, debug: bool):
        self.debug = debug
        self.passes = passes
        self.model = weakref.ref(model)
        self.ended = False
        self.running: list[Running] = []
        self.before_loss: weakref.ref[nn.Module] | None = None  # the module of the last forward pass with gradients
        self.kept: weakref.WeakKeyDictionary[nn.Module, KeptUnits] = weakref.WeakKeyDictionary()  # with its forward passes
        self.uncompiled: Uncompiled | None = None
        weakref.finalize(self, WATCH.leave).atexit = False
        self.released = ReleasedAccess() if debug else None
        self.parameters = {storage_of(tensor): tensor for tensor in all_stored(model.parameters())}
        self.trains = any(parameter.requires_grad for parameter in model.parameters())
        self.units_of: dict[nn.Parameter, list[int]] = {}
        for number, unit in enumerate(passes.units):
            for parameter in unit.parameters:
                self.units_of.setdefault(parameter, []).append(number)
        self.handles = []
        for module in model.modules():
            self.handles.append(module.register_forward_pre_hook(self.before, with_kwargs=True, prepend=True))
            self.handles.append(module.register_forward_hook(self.after, with_kwargs=True, always_call=True))
        if debug:
            weakref.finalize(self, self.released.leave).atexit = False
            self.released.__enter__()
            WATCH.add(self)

    def __deepcopy__(self, memo: dict) -> OutsideUses:
        """Of a copied module, which has no uses to watch."""
        copied = object.__new__(OutsideUses)
        copied.ended = True
        return copied

    def pause(self) -> None:
        """Until the next forward pass."""
        self.before_loss = None
        if not self.debug:
            WATCH.remove(self)

    def end(self) -> None:
        self.before_loss = None
        if self.debug:
            return
        self.ended = True
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.uncompiled = None
        WATCH.remove(self)

    @eager
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if self.ended or in_backward() or self.runs_elsewhere():
            return
        if module is self.model():
            self.running.clear()  # of a pass that Ctrl-C has ended, which calls no hook
        WATCH.add(self)
        self.uncompiled = self.uncompiled or Uncompiled()
        self.running.append(Running(module, args, kwargs, threading.get_ident()))

    @eager
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> None:
        if self.ended or in_backward() or self.runs_elsewhere():
            return
        if self.running:
            self.running.pop()
        if self.running:
            return
        if result is not None and self.trains and torch.is_grad_enabled() and (self.debug or WATCH.can_stay()):
            self.before_loss = weakref.ref(module)  # without a result it was ended by an exception
        if self.before_loss is None and not self.debug:
            WATCH.remove(self)
        self.compile_after_backward(result)

    def runs_elsewhere(self) -> bool:
        """Whether another thread is in a forward pass: the only one that is watched."""
        return bool(self.running) and goes_on_elsewhere(self.running[0].thread)

    def compile_after_backward(self, result: object) -> None:
        """Compiled functions run as they are written until the backward pass from `result` has ended, or will never come: what
        is recomputed must be computed as it was."""
        of_graph, self.uncompiled = self.uncompiled, None
        for leaf in tree_iter(result):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(lambda gradient: Variable._execution_engine.queue_callback(of_graph.release))

    def used(self, tensor: torch.Tensor) -> None:
        storage = storage_of(tensor)
        parameter = self.parameters.get(storage)
        if parameter is None or storage_of(parameter) != storage or parameter.castor_place.n_gathered:
            return  # a storage that was replaced may have left its address to another
        numbers = self.units_of[parameter]
        if not self.passes.opened().isdisjoint(numbers):
            return
        if not self.running and self.before_loss is None:
            return self.refuse(parameter)
        try:
            self.fetch(numbers[0]) if self.running else self.keep(numbers[0])
        except Error as error:
            self.pause()
            raise error.after(f"parameter {parameter.castor_place.name} is used outside of its module") from None

    def refuse(self, parameter: nn.Parameter) -> None:
        if self.debug:
            raise Error(
                f"parameter {parameter.castor_place.name} is used outside of the model's forward passes, where it may have no "
                "memory; do it within castor.gathered(parameter)",
                "usage",
            )

    def fetch(self, number: int) -> None:
        """Fetches the unit with the innermost running module, from now on and at once. Where there is no room for it, not
        from then on."""
        within = self.running[-1]
        hooks = UnitHooks(self.passes, number)
        handles = hooks.attach(within.module, within=True)
        modules = set(within.module.modules())
        try:
            hooks.before(within.module, within.args, within.kwargs)
            self.passes.check_beside(i for i, unit in enumerate(self.passes.units) if unit.module in modules)
        except Error:
            self.passes.close(number)
            for handle in handles:
                handle.remove()
            raise

    def keep(self, number: int) -> None:
        """Fetches the unit with the forward pass before the loss, from now on and at once, until the step has ended."""
        module = self.before_loss()
        if module is None:
            return  # a part that is gone takes its hooks along
        if module not in self.kept:
            self.kept[module] = KeptUnits(self.passes)
            self.kept[module].attach(module)
        self.kept[module].add(number)


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
    """One for all models that are watched. Within forward passes compiled functions run as they are written, so that their
    operators are seen."""

    def __init__(self):
        super().__init__()
        self.of: weakref.WeakSet[OutsideUses] = weakref.WeakSet()
        self.threads: dict[int, bool] = {}  # that have entered it, and whether in inference mode

    def add(self, uses: OutsideUses) -> None:
        self.of.add(uses)
        if all(mode is not self for mode in _get_current_dispatch_mode_stack()):
            self.threads[threading.get_ident()] = torch.is_inference_mode_enabled()
            self.__enter__()

    def remove(self, uses: OutsideUses) -> None:
        self.of.discard(uses)
        self.leave()

    def leave(self) -> None:
        """Where no model is left. Where another mode was entered since, or an operator is being watched, this one stays until a
        later call; so it does in the threads of autograd, which have copies of the modes. And in inference mode that began
        since: at its end torch sets the thread as it was at its begin."""
        thread = threading.get_ident()
        if not self.of and self.threads.get(thread) is torch.is_inference_mode_enabled() and _get_current_dispatch_mode() is self:
            del self.threads[thread]
            self.__exit__(None, None, None)

    def can_stay(self) -> bool:
        """Modes of others that were entered before would end first, and each end takes the last of all modes."""
        return all(mode is self for mode in _get_current_dispatch_mode_stack())

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Otherwise torch.compile skips for good what it meets here without knowing the stance."""
        return True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.of and not in_backward() and not is_view(func):  # in backward hooks of tensors fetch units
            for leaf in tree_iter((args, kwargs)):
                if isinstance(leaf, torch.Tensor) and torch._C._has_storage(leaf):
                    for uses in tuple(self.of):
                        uses.used(leaf)
        return func(*args, **kwargs)


WATCH = OperatorWatch()


def is_view(func: torch._ops.OpOverload) -> bool:
    """Views read no element; what reads the view is seen by itself."""
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)
