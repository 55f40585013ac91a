# SPDX-License-Identifier: Apache-2.0
"""The optimizer under a session, whose step is the session's."""

from __future__ import annotations

import logging
import math
import numbers
import os
import sys
import weakref

import torch
from torch import nn

from castor import _core
from castor._errors import Error
from castor._hooks import Passes
from castor._messages import report
from castor._outside import OutsideUses
from castor._rules import check_group, from_torch, no_moments, python_names, to_torch, values_of
from castor._saved_states import saved_parts
from castor._stored import all_stored

Groups = list[tuple[dict[str, float], list[str]]]


def groups_of(optimizer: torch.optim.Optimizer, rule: str, names: dict[nn.Parameter, str]) -> Groups:
    """Of each group its values, and the names of its parameters."""
    groups = [(values_of(rule, group), names_of(group, names)) for group in optimizer.param_groups]
    if len({values.get("nesterov") for values, _ in groups}) > 1:
        raise Error("some parameter groups have nesterov=True and others not; Castor has one for all", "usage", "nesterov")
    return groups


def names_of(group: dict, names: dict[nn.Parameter, str]) -> list[str]:
    of_group = all_stored(group["params"])
    for parameter in of_group:
        if parameter not in names:
            raise Error(
                f"the optimizer has a parameter of sizes {tuple(parameter.shape)} that the model does not have; make the "
                "optimizer from the model's parameters",
                "usage",
            )
    return [names[parameter] for parameter in of_group]


def check_all_have_groups(groups: Groups, names: dict[nn.Parameter, str]) -> None:
    grouped = {name for _, of_group in groups for name in of_group}
    for parameter, name in names.items():
        if parameter.requires_grad and name not in grouped:
            raise Error(
                f"parameter {name} requires a gradient and is in no group of the optimizer; add it to one, or freeze it "
                "with requires_grad_(False)",
                "usage",
            )


def check_not_boosted(optimizer: torch.optim.Optimizer, names: dict[nn.Parameter, str]) -> None:
    """names: of the model that it is to be boosted with."""
    if isinstance(optimizer, BoostedOptimizer):
        its_names = optimizer.castor_names
        other = f"another model, which has the parameter {next(iter(its_names.values()))}"
        model = "this model" if its_names.keys() == names.keys() else other
        raise Error(
            f"the optimizer was boosted already, with {model}; boost each model once, with an optimizer of its own parameters",
            "usage",
        )


def check_no_gradients(names: dict[nn.Parameter, str]) -> None:
    """Outside of a step no parameter has a gradient, unless a program has set it."""
    for parameter, name in names.items():
        if parameter.grad is not None:
            raise Error(
                f"parameter.grad was set by the program; gradients of parameter {name} go from backward() to Castor, and "
                "castor.set_grad(parameter, values) replaces one within a step",
                "usage",
            )


class RefusesGradScaler:
    """What torch.amp.GradScaler asks an optimizer for before each step. Its truth value is refused, and not the attribute,
    which programs may look at that list an optimizer's attributes."""

    def __bool__(self) -> bool:
        raise Error(
            "torch.amp.GradScaler does not reach the gradients, which are with Castor; drop the step with zero_grad, and let "
            "optimizer.backward(loss) scale the loss under precision='fp16'",
            "usage",
            "precision",
        )


class StatesWithCastor(dict):
    """What optimizer.state is under a session: it is empty, and refuses what would read or change a state."""

    def refuse(self, *args, **kwargs):
        raise Error(
            "the optimizer's states are with Castor: optimizer.state_dict() copies them, and optimizer.load_state_dict() "
            "replaces them",
            "usage",
        )

    __missing__ = __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = refuse


class BoostedOptimizer:
    """What an optimizer does under a session in place of its own work. The class of a boosted optimizer is made from
    this one and its own, so that isinstance stays true. Its attributes are the object's, none the class's: a wrapper
    whose class is made from it, as Lightning's, asks the object for those that it does not have."""

    castor_rule: str
    castor_names: dict[nn.Parameter, str]
    castor_session: _core.Session
    castor_messages: _core.Messages
    castor_groups: Groups  # as the session has them
    castor_seen: list[tuple[dict, list[int]]]  # the same, with the identities of the parameters
    castor_trained: set[str]  # parameters that had gradients when the model was boosted, and so have states
    castor_passes: Passes
    castor_scales: list[torch.Tensor]  # that bitsandbytes keeps beside frozen weights
    castor_first_step: OutsideUses
    castor_outcome: tuple[bool, float | None]  # of the last step: whether it was skipped, and the norm
    castor_has_told: bool  # that gradients are not set to 0
    _step_supports_amp_scaling = RefusesGradScaler()

    @property
    def state(self) -> StatesWithCastor:
        return StatesWithCastor()

    @state.setter
    def state(self, states: dict) -> None:
        self.state.refuse()

    def __reduce_ex__(self, protocol: int) -> tuple:
        raise Error("a boosted optimizer is neither copied nor pickled; optimizer.state_dict() has its states", "usage")

    def castor_follow_groups(self) -> None:
        """Tells the session of values that schedulers or users have changed."""
        seen = [(values_of(self.castor_rule, group), [id(p) for p in group["params"]]) for group in self.param_groups]
        if seen == self.castor_seen:
            return
        groups = groups_of(self, self.castor_rule, self.castor_names)
        if groups != self.castor_groups:
            check_all_have_groups(groups, self.castor_names)
            with python_names(self.castor_rule):
                self.castor_session.set_optimizer(self.castor_rule, groups)
            self.castor_groups = groups
        self.castor_seen = seen

    def castor_resume(self, folder: str | os.PathLike) -> None:
        try:
            self.castor_session.resume([os.fspath(folder)])
        except Error as error:
            raise error.of_argument("resume_from", "path") from None
        finally:
            report(self.castor_messages)
        for parameter in self.castor_names:
            parameter.castor_place.waiting.discard(self.castor_names[parameter])

    def backward(self, loss: torch.Tensor, **kwargs: bool) -> None:
        """loss.backward(**kwargs), with the loss scaled where gradients are fp16."""
        if loss.numel() != 1:
            raise Error(f"a loss is one number, and this one has sizes {tuple(loss.shape)}; take its mean or sum", "usage")
        loss.backward(torch.full_like(loss, self.castor_session.scale_next_loss()), **kwargs)

    def clip_grad_norm_(self, max_norm: float) -> torch.Tensor:
        """Clips the gradients of this step to a norm over all of them, and returns the norm before that; inf: only the norm."""
        if not isinstance(max_norm, numbers.Real) or not max_norm >= 0:
            raise Error(f"max_norm takes 0 or more, not {max_norm}", "usage", "max_norm")
        if not self.castor_session.step_under_way():
            return torch.zeros(())
        if math.isinf(max_norm):
            return torch.tensor(self.castor_session.grad_norm())
        return torch.tensor(self.castor_session.clip_grad_norm(max(max_norm, sys.float_info.min)))  # 0 is no limit to the core

    @property
    def skipped(self) -> bool:
        """The last step updated nothing, since gradients held inf or nan."""
        return self.castor_outcome[0]

    def get_grad_norm(self) -> float | None:
        """The norm of the last step's gradients before clipping; None where it was not taken: without clipping and fp16."""
        return self.castor_outcome[1]

    @property
    def loss_scale(self) -> float:
        """What backward() multiplies the next loss by: 1 without fp16."""
        return self.castor_session.loss_scale()

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self.castor_session.step_under_way():
            check_no_gradients(self.castor_names)
            self.castor_outcome = (False, None)
        else:
            self.castor_follow_groups()
            self.castor_outcome = self.castor_session.step()
            if self.skipped:
                report_skipped(self.loss_scale)
            report(self.castor_messages)
            self.castor_passes.end_step()
            self.castor_first_step.end()
        return loss

    def state_dict(self) -> dict:
        """As torch's, with copies of the moments on the host, outside of every budget, and the masters of 16-bit parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [{**group, "params": [numbers[p] for p in group["params"]]} for group in self.param_groups]
        state_dict = {"state": self.castor_states(numbers), "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            state_dict = given_by(hook(self, state_dict), state_dict)
        return state_dict

    def castor_states(self, numbers: dict[nn.Parameter, int]) -> dict[int, dict]:
        states = {}
        for parameter, number in numbers.items():
            name = self.castor_names.get(parameter)
            if name not in self.castor_trained:
                continue
            exp_avg, exp_avg_sq, n_updates = self.castor_session.read_moments(name)
            if n_updates:
                states[number] = to_torch(self.castor_rule, exp_avg, exp_avg_sq, n_updates)
                if parameter.dtype != torch.float32:
                    states[number]["master"] = self.castor_session.read_master(name)
        return states

    def load_state_dict(self, state_dict: dict) -> None:
        """That of a boosted optimizer or of torch's own; by the parameters' places in the groups, as torch does. A parameter
        without a state there begins anew."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = given_by(hook(self, state_dict), state_dict)
        values, states = saved_parts(self.castor_rule, self.param_groups, state_dict)
        for group, given in zip(self.param_groups, values):
            check_group(self.castor_rule, {**group, **given})
        for parameter, state in states.items():
            take_state(self, parameter, state)
        for parameter in self.castor_names.keys() - states.keys():
            forget_state(self, parameter)
        for group, given in zip(self.param_groups, values):
            group.update(given)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients since the last step; after a step there are none, and they are never set to 0."""
        if not set_to_none and not self.castor_has_told:
            self.castor_has_told = True
            logging.getLogger("castor").warning(
                "zero_grad(set_to_none=False) drops gradients as set_to_none=True does: a parameter without a gradient is not "
                "updated by the next step"
            )
        if self.castor_session.step_under_way():
            self.castor_session.zero_grad()
            self.castor_passes.renew()
            self.castor_first_step.pause()
        for parameter in self.castor_names:
            parameter.grad = None  # where a hook's exception has kept it from Castor


def take_state(optimizer: BoostedOptimizer, parameter: nn.Parameter, state: dict) -> None:
    """The moments, and the master where a 16-bit parameter has one."""
    session, name = optimizer.castor_session, optimizer.castor_names[parameter]
    session.write_moments(name, from_torch(optimizer.castor_rule, state))
    if parameter.dtype != torch.float32 and state.get("master") is not None:
        session.load([(name, state["master"])])


def forget_state(optimizer: BoostedOptimizer, parameter: nn.Parameter) -> None:
    """The master stays, which is the weight in full."""
    session, name = optimizer.castor_session, optimizer.castor_names[parameter]
    if name in optimizer.castor_trained and session.read_moments(name)[2]:
        session.write_moments(name, no_moments(optimizer.castor_rule, parameter))


def report_skipped(loss_scale: float) -> None:
    logger = logging.getLogger("castor")
    if loss_scale == 1:
        logger.warning("gradients hold inf or nan; the step updated nothing")
    else:
        logger.info("gradients hold inf or nan; the step updated nothing, and losses are scaled by %g from now on", loss_scale)


def given_by(result: dict | None, before: dict) -> dict:
    """What a hook leaves: its result, if it has one."""
    return before if result is None else result


def change_class(optimizer: torch.optim.Optimizer) -> None:
    """Makes `optimizer` a boosted one, in place; its step hooks stay."""
    own = type(optimizer)
    optimizer.__class__ = type(own.__name__, (BoostedOptimizer, own), {})
    optimizer._patch_step_function()
    if "step" in vars(optimizer):
        follow_scheduler(optimizer)


def follow_scheduler(optimizer: torch.optim.Optimizer) -> None:
    """A scheduler that was made before has put a function around the old step, in order to know that it was called."""
    del optimizer.step
    it = weakref.ref(optimizer)  # whose memory goes with the last reference of the program

    def counted(*args, **kwargs):
        self = it()
        self._opt_called = True
        return type(self).step(self, *args, **kwargs)

    counted._wrapped_by_lr_sched = True
    optimizer.step = counted
