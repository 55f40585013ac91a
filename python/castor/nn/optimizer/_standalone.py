# SPDX-License-Identifier: Apache-2.0
"""An optimizer of parameters that no session has: torch's groups and gradients, Castor's kernels and states."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from castor import _core
from castor._errors import Error
from castor._forks import OPTIMIZERS
from castor._rules import ONE_MOMENT, check_group, from_torch, no_moments, python_names, to_torch, values_of
from castor._saved_states import saved_parts
from castor._values import check_value, fits, is_number
from castor.nn.optimizer._layouts import Layout, check, check_gradient, check_unchanged, layout_of

COPIED = ("core_rule", "set_grad_none", "max_grad_norm", "nvme_offload_fraction", "nvme_offload_dir")


class StandaloneOptimizer(torch.optim.Optimizer):
    """Updates parameters in their own memory by a rule of the core. Moments, and what 16-bit parameters lack of an fp32
    master, are kept on the host, or on NVMe; of parameters on a GPU too, whose updates then run on the host.

    core_rule: the rule. nvme_offload_fraction: the share of the states in a file of nvme_offload_dir, which ends with the
    process; None: the folder for temporary files. set_grad_none: what zero_grad() does unless it says otherwise.
    """

    core_rule: str
    set_grad_none = True
    _states: _core.TensorOptimizer | None
    _numbers: dict[nn.Parameter, int]
    _layouts: dict[nn.Parameter, Layout]
    _on_host: dict[nn.Parameter, torch.Tensor]

    def __init__(
        self,
        params: Iterable[Any],
        defaults: dict[str, Any],
        nvme_offload_fraction: float = 0.0,
        nvme_offload_dir: str | os.PathLike | None = None,
    ):
        is_share = is_number(nvme_offload_fraction) and 0 <= nvme_offload_fraction <= 1
        check_value("nvme_offload_fraction", nvme_offload_fraction, "a number from 0 to 1", is_share)
        check_value("nvme_offload_dir", nvme_offload_dir, "a folder or None", fits(nvme_offload_dir, str | os.PathLike | None))
        if nvme_offload_dir is not None and not nvme_offload_fraction:
            warnings.warn("nvme_offload_dir=… has no effect: nvme_offload_fraction is 0", stacklevel=3)
        self.nvme_offload_fraction = nvme_offload_fraction
        self.nvme_offload_dir = nvme_offload_dir
        vars(self).update(nothing_open())
        super().__init__(params, defaults)

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles, which keep states of their own."""
        own = {name: value for name, value in vars(self).items() if name in COPIED}
        return {**super().__getstate__(), **own, **nothing_open(), "state": self.states()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        states, self.state = self.state, defaultdict(dict)
        self._write(states)

    def nvme_folder(self) -> str | None:
        if not self.nvme_offload_fraction:
            return None
        return tempfile.gettempdir() if self.nvme_offload_dir is None else os.fspath(self.nvme_offload_dir)

    def add_param_group(self, param_group: dict) -> None:
        if self._states is not None:
            raise Error("the optimizer has states already; add groups of parameters before its first step", "usage")
        super().add_param_group(param_group)
        try:
            self.check_values(self.param_groups[-1])
        except Error:
            del self.param_groups[-1]
            raise

    def check_values(self, group: dict) -> None:
        check_group(self.core_rule, group, group.get("bias_correction", True))

    def zero_grad(self, set_to_none: bool | None = None) -> None:
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        states = self._open()
        updates = [update for group in self.param_groups for update in self._updates(group)]
        stepped = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        with python_names(self.core_rule):
            states.step(updates, self._grad_scale(stepped))
        for parameter in stepped:
            if parameter in self._on_host:
                parameter.copy_(self._on_host[parameter])
        return loss

    def _grad_scale(self, stepped: list[nn.Parameter]) -> float:
        """Gradients are multiplied by it."""
        return 1.0

    def _open(self) -> _core.TensorOptimizer:
        if self._states is None:
            parameters = [parameter for group in self.param_groups for parameter in group["params"]]
            for parameter in parameters:
                check(parameter)
            folder = self.nvme_folder()
            self._states = _core.TensorOptimizer(
                [(parameter.dtype, parameter.numel()) for parameter in parameters],
                self.core_rule not in ONE_MOMENT,
                [folder] if folder else [],
                self.nvme_offload_fraction,
                torch.get_num_threads(),
                0,
            )
            OPTIMIZERS.add(self._states)
            self._numbers = {parameter: number for number, parameter in enumerate(parameters)}
            self._layouts = {parameter: layout_of(parameter) for parameter in parameters}
            for sentence in self._states.warnings():
                logging.getLogger("castor").warning("%s", sentence)
        return self._states

    def _weight(self, parameter: nn.Parameter) -> torch.Tensor:
        """Its weight on the host."""
        check_unchanged(parameter, self._layouts.get(parameter))
        if parameter.device.type == "cpu":
            return parameter.data
        if parameter not in self._on_host:
            self._on_host[parameter] = torch.empty_like(parameter, device="cpu", requires_grad=False)
        return self._on_host[parameter].copy_(parameter)

    def _updates(self, group: dict) -> list[tuple]:
        """As the core takes them."""
        corrects = group.get("bias_correction", True)
        rule = self.core_rule, values_of(self.core_rule, group, corrects), corrects
        return [(*self._tensors(p), *rule) for p in group["params"] if p.grad is not None]

    def _tensors(self, parameter: nn.Parameter) -> tuple[int, torch.Tensor, torch.Tensor]:
        """Its number, and weight and gradient on the host, in the order of the parameter's memory."""
        grad, weight = parameter.grad, self._weight(parameter)
        check_gradient(parameter, grad)
        if grad.device != weight.device or grad.stride() != weight.stride():
            grad = torch.empty_like(weight, dtype=grad.dtype).copy_(grad)
        return self._numbers[parameter], weight, grad

    def states_of(self, parameter: nn.Parameter) -> dict:
        """As torch.optim has them, and the master of a 16-bit parameter; empty before its first update."""
        states, weight = self._open(), self._weight(parameter)
        master, exp_avg, exp_avg_sq, n_updates = states.read(self._numbers[parameter], weight)
        if not n_updates:
            return {}
        shaped = [None if flat is None else like(weight, flat) for flat in (exp_avg, exp_avg_sq)]
        state = to_torch(self.core_rule, *shaped, n_updates)
        return state if parameter.dtype == torch.float32 else {**state, "master": like(weight, master)}

    def moved_bytes(self) -> tuple[int, int]:
        """That were read from NVMe, and written there."""
        return self._states.moved_bytes() if self._states is not None else (0, 0)

    def states(self) -> dict[nn.Parameter, dict]:
        """Those of all parameters that were updated."""
        if self._states is None:
            return {}
        states = {p: self.states_of(p) for group in self.param_groups for p in group["params"]}
        return {parameter: state for parameter, state in states.items() if state}

    def state_dict(self) -> dict[str, Any]:
        self.state.update(self.states())
        try:
            return super().state_dict()
        finally:
            self.state.clear()

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """That of this class, of a boosted optimizer or of torch's own; by the parameters' places in the groups. A parameter
        without a state there begins anew."""
        values, states = saved_parts(self.core_rule, self.param_groups, state_dict)
        groups = [{**group, **given} for group, given in zip(self.param_groups, values)]
        for group in groups:
            self.check_values(group)
        numbered = [{**group, "params": given["params"]} for group, given in zip(groups, state_dict["param_groups"])]
        super().load_state_dict({**state_dict, "state": {}, "param_groups": numbered})
        self._write({parameter: {} for parameter in self._numbers.keys() - states.keys()} | states)

    @torch.no_grad()
    def _write(self, states: dict[nn.Parameter, dict]) -> None:
        for parameter, state in states.items():
            opened, weight = self._open(), self._weight(parameter)
            moments = from_torch(self.core_rule, state) if state else no_moments(self.core_rule, weight)
            exp_avg, exp_avg_sq, n_updates = moments
            flat = [None if s is None else flat_like(weight, s) for s in (state.get("master"), exp_avg, exp_avg_sq)]
            opened.write(self._numbers[parameter], weight, *flat, n_updates)
            if parameter in self._on_host:
                parameter.copy_(weight)


def nothing_open() -> dict[str, Any]:
    """The attributes before the first step."""
    return {"_states": None, "_numbers": {}, "_layouts": {}, "_on_host": {}}


def like(weight: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Values in the order of the weight's memory, with its sizes and strides."""
    return flat.as_strided(weight.shape, weight.stride())


def flat_like(weight: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    ordered = torch.empty_like(weight, dtype=torch.float32).copy_(values)
    return ordered.as_strided((weight.numel(),), (1,))
