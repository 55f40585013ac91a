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
from castor._access import is_boosted_parameter, weight_of
from castor._eager import eager
from castor._errors import Error
from castor._guards import knows_all, refuse_new_parameters, refuse_moves
from castor._hooks import Passes, in_backward
from castor._quantized import same_bytes
from castor._stored import is_wrapper

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
FLAGS_OF_HOOKS = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
OURS = ("castor_place", "share_memory_", "is_shared")  # attributes of parameters
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

    def __init__(self, model: nn.Module, passes: Passes):
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.has_all = knows_all(self.names)
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
            if is_boosted_parameter(parameter):
                weight = weight_of(parameter).to(parameter.device)
                memo[id(parameter)] = like_parameter(parameter, weight)
        memo.update(same_bytes(model, memo))
        for parameter in model.parameters():
            copy_attributes(parameter, memo)
        copied = copy.deepcopy(model, memo)
    finally:
        vars(model).update(methods)
    for module in copied.modules():
        drop_hooks(module)
    return copied


def like_parameter(parameter: nn.Parameter, weight: torch.Tensor) -> nn.Parameter:
    """Of its class, which is another than that of its weight where bitsandbytes made it."""
    if type(parameter) is nn.Parameter or type(weight) is not torch.Tensor:
        return nn.Parameter(weight, parameter.requires_grad)
    return torch.Tensor._make_subclass(type(parameter), weight, parameter.requires_grad)


def copy_attributes(parameter: nn.Parameter, memo: dict) -> None:
    """Those of such a class. Parameters of torch's own are copied without."""
    made = memo.get(id(parameter))
    if made is None or type(made) is nn.Parameter or is_wrapper(made):
        return
    others = {name: value for name, value in vars(parameter).items() if name not in OURS}
    vars(made).update(copy.deepcopy(others, memo))


def drop_hooks(module: nn.Module) -> None:
    for hooks in (getattr(module, name) for name in HOOKS):
        for number in [number for number, hook in hooks.items() if is_ours(hook)]:
            del hooks[number]
            for flags in (getattr(module, name) for name in FLAGS_OF_HOOKS):
                flags.pop(number, None)


def is_ours(hook: object) -> bool:
    return str(getattr(getattr(hook, "hook", hook), "__module__", "")).startswith("castor.")
