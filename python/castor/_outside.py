# SPDX-License-Identifier: Apache-2.0
"""Parameters that are used outside of their module, as `out_proj` of MultiheadAttention: found in the first step, and
fetched from then on with the module that uses them."""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd import Variable
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_iter

from castor._errors import Error
from castor._hooks import Passes, UnitHooks


@dataclass
class Running:
    """A module whose forward function is being called."""

    module: nn.Module
    args: tuple
    kwargs: dict


class OutsideUses:
    """Watches every operator of the model's forward passes until end(). debug: of the whole program, for good, so that an
    access to a parameter without memory raises castor.Error whatever the version of torch."""

    def __init__(self, model: nn.Module, passes: Passes, debug: bool):
        self.debug = debug
        self.passes = passes
        self.model = model
        self.running: list[Running] = []
        self.watching = debug  # the mode is entered
        self.mode = OperatorWatch(self)
        weakref.finalize(self, self.mode.abandon).atexit = False
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
        self.mode.compile()

    @torch._disable_dynamo
    def before(self, module: nn.Module, args: tuple, kwargs: dict) -> None:
        if module is self.model and torch._C._current_graph_task_id() == -1:
            self.running.clear()  # of a pass that Ctrl-C has ended, which calls no hook
        if not self.watching:
            self.mode.__enter__()
            self.watching = True
        self.running.append(Running(module, args, kwargs))

    @torch._disable_dynamo
    def after(self, module: nn.Module, args: tuple, kwargs: dict, result: object) -> None:
        if self.running:
            self.running.pop()
        if self.watching and not self.running and not self.debug:
            self.mode.__exit__(None, None, None)
            self.watching = False
            self.mode.compile_after_backward(result)

    def used(self, tensor: torch.Tensor) -> None:
        parameter = self.parameters.get(storage_of(tensor))
        in_backward = torch._C._current_graph_task_id() != -1  # where hooks of tensors fetch units
        if parameter is None or in_backward or parameter.castor_place.n_gathered:
            return
        numbers = self.units_of[parameter]
        if any(open_pass.number in numbers for open_pass in self.passes.open):
            return
        if not self.running:
            raise Error(
                f"parameter {parameter.castor_place.name} is used outside of the model's forward passes, where it may have "
                "no memory; do it within castor.gathered(parameter)",
                "usage",
            )
        self.fetch(numbers[0])

    def fetch(self, number: int) -> None:
        """Fetches the unit with the innermost running module, from now on and at once."""
        within = self.running[-1]
        hooks = UnitHooks(self.passes, number)
        hooks.attach(within.module, within=True)
        hooks.before(within.module, within.args, within.kwargs)


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

    def abandon(self) -> None:
        """Of a model that is gone: Ctrl-C in its first step has called no hook."""
        if _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)
        self.compile()

    def __enter__(self) -> OperatorWatch:
        if self.uncompiled is None:
            self.uncompiled = Uncompiled()
        return super().__enter__()

    def compile(self) -> None:
        if self.uncompiled is not None:
            self.uncompiled.release()
            self.uncompiled = None

    def compile_after_backward(self, result: object) -> None:
        """result: of the forward pass that has ended, whose graph keeps functions uncompiled from now on, or of a part of one
        that is recomputed."""
        of_graph, self.uncompiled = self.uncompiled, None
        if torch._C._current_graph_task_id() != -1:
            return of_graph.release()
        for leaf in tree_iter(result):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
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


def is_view(func: torch._ops.OpOverload) -> bool:
    """Views read no element; what reads the view is seen by itself."""
    return any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
