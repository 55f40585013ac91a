# SPDX-License-Identifier: Apache-2.0
"""The changes of a boosted model object: methods of the instance, and copies that have none of them."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing.context
import weakref
from collections.abc import Iterator

import torch
from torch import nn

from castor import _core
from castor._access import place_of
from castor._eager import eager
from castor._errors import Error
from castor._guards import knows_all, refuse_new_parameters, refuse_moves
from castor._hooks import Passes, in_backward

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
FLAGS_OF_HOOKS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
METHODS = ("zero_grad", "no_sync", "unwrap", "_apply", "__deepcopy__", "__reduce_ex__")


def change_methods(model: nn.Module, optimizer: torch.optim.Optimizer, session: _core.Session) -> None:
    refuse_moves(model)
    it = weakref.ref(model)
    model.zero_grad = optimizer.zero_grad
    model.no_sync = lambda: no_sync(session)
    model.unwrap = it
    model.__deepcopy__ = lambda memo: plain_copy(it(), memo)
    model.__reduce_ex__ = lambda protocol: copy_to_pickle(it()).__reduce_ex__(protocol)


class BeforeTraining:
    """What is looked at when a forward pass of the model begins."""

    def __init__(self, names: dict[nn.Parameter, str], passes: Passes):
        self.names = names
        self.has_all = knows_all(names)
        self.passes = passes

    def __deepcopy__(self, memo: dict) -> BeforeTraining:
        """For plain_copy, which drops the hook."""
        return self

    @eager
    def check(self, model: nn.Module, *_) -> None:
        if self.passes.open and not in_backward():
            self.passes.end_abandoned()
        if torch.is_grad_enabled() and not self.has_all(model):
            refuse_new_parameters(model, self.names)


@contextlib.contextmanager
def no_sync(session: _core.Session) -> Iterator[None]:
    held = session.no_sync()
    try:
        yield
    finally:
        del held


def copy_to_pickle(model: nn.Module) -> nn.Module:
    """Processes that are started share the memory of tensors in their arguments, which would be that of a copy that is gone."""
    if multiprocessing.context.get_spawning_popen() is not None:
        why = "a boosted model cannot be an argument of another process; give it model.state_dict(), and make the model there"
        raise Error(why, "usage")
    return plain_copy(model, {})


def plain_copy(model: nn.Module, memo: dict) -> nn.Module:
    """A model with memory of its own that was never boosted."""
    methods = {name: vars(model).pop(name) for name in METHODS}
    try:
        for parameter in model.parameters():
            if place := place_of(parameter):
                weight = place[0].read_weight(place[1]).to(parameter.device)
                memo[id(parameter)] = nn.Parameter(weight, parameter.requires_grad)
        copied = copy.deepcopy(model, memo)
    finally:
        vars(model).update(methods)
    for module in copied.modules():
        drop_hooks(module)
    return copied


def drop_hooks(module: nn.Module) -> None:
    for hooks in (getattr(module, name) for name in HOOKS):
        for number in [number for number, hook in hooks.items() if is_ours(hook)]:
            del hooks[number]
            for flags in (getattr(module, name) for name in FLAGS_OF_HOOKS):
                flags.pop(number, None)


def is_ours(hook: object) -> bool:
    return str(getattr(getattr(hook, "hook", hook), "__module__", "")).startswith("castor.")
