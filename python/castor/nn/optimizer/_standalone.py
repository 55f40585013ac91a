# SPDX-License-Identifier: Apache-2.0
"""An optimizer of parameters that no session has: torch's groups and gradients, Castor's kernels and states."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from castor import _core
from castor._errors import Error
from castor._rules import ONE_MOMENT, from_torch, python_names, to_torch, values_of


class StandaloneOptimizer(torch.optim.Optimizer):
    """Updates parameters in their own memory by a rule of the core. Moments, and what 16-bit parameters lack of an fp32
    master, are kept on the host, or on NVMe; of parameters on a GPU too, whose updates then run on the host.

    core_rule: the rule. nvme_offload_fraction: the share of the states in a file of nvme_offload_dir, which ends with the
    process; None: a temporary folder.
    """

    core_rule: str

    def __init__(
        self,
        params: Iterable[Any],
        defaults: dict[str, Any],
        nvme_offload_fraction: float = 0.0,
        nvme_offload_dir: str | None = None,
    ):
        self.nvme_offload_fraction = nvme_offload_fraction
        self.nvme_offload_dir = nvme_offload_dir
        self._states: _core.TensorOptimizer | None = None
        self._numbers: dict[nn.Parameter, int] = {}
        self._on_host: dict[nn.Parameter, torch.Tensor] = {}
        super().__init__(params, defaults)

    def nvme_folder(self) -> str | None:
        if not self.nvme_offload_fraction:
            return None
        if self.nvme_offload_dir is None:
            self.nvme_offload_dir = tempfile.mkdtemp(prefix="castor_states_")
            weakref.finalize(self, shutil.rmtree, self.nvme_offload_dir, ignore_errors=True)
        return self.nvme_offload_dir

    def add_param_group(self, param_group: dict) -> None:
        if self._states is not None:
            raise Error("the optimizer has states already; add groups of parameters before its first step", "usage")
        super().add_param_group(param_group)
        try:
            with python_names(self.core_rule):
                _core.check_rule(self.core_rule, values_of(self.core_rule, self.param_groups[-1], bias_correction=True))
        except Error:
            del self.param_groups[-1]
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        states = self._open()
        stepped = [(group, p) for group in self.param_groups for p in group["params"] if p.grad is not None]
        with python_names(self.core_rule):
            states.step([self._update(group, parameter) for group, parameter in stepped], self._grad_scale(stepped))
        for _, parameter in stepped:
            if parameter in self._on_host:
                parameter.copy_(self._on_host[parameter])
        return loss

    def _grad_scale(self, stepped: list[tuple[dict, nn.Parameter]]) -> float:
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
            )
            self._numbers = {parameter: number for number, parameter in enumerate(parameters)}
            for sentence in self._states.warnings():
                logging.getLogger("castor").warning("%s", sentence)
        return self._states

    def _weight(self, parameter: nn.Parameter) -> torch.Tensor:
        """Its weight on the host."""
        if parameter.device.type == "cpu":
            return parameter.data
        if parameter not in self._on_host:
            self._on_host[parameter] = torch.empty_like(parameter, device="cpu", requires_grad=False)
        return self._on_host[parameter].copy_(parameter)

    def _update(self, group: dict, parameter: nn.Parameter) -> tuple:
        """As the core takes it: the gradient in the order of the parameter's memory."""
        grad = parameter.grad
        if grad.is_sparse:
            raise Error(f"a gradient of sizes {tuple(grad.shape)} is sparse; make its embedding dense (sparse=False)", "usage")
        weight = self._weight(parameter)
        if grad.device != weight.device or grad.stride() != weight.stride():
            grad = torch.empty_like(weight, dtype=grad.dtype).copy_(grad)
        corrects = group.get("bias_correction", True)
        return self._numbers[parameter], weight, grad, self.core_rule, values_of(self.core_rule, group, corrects), corrects

    def states_of(self, parameter: nn.Parameter) -> dict:
        """As torch.optim has them, and the master of a 16-bit parameter; empty before its first update."""
        weight = self._weight(parameter)
        master, exp_avg, exp_avg_sq, n_updates = self._open().read(self._numbers[parameter], weight)
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
        """That of this class, of a boosted optimizer or of torch's own; by the parameters' places in the groups."""
        super().load_state_dict({**state_dict, "state": {}})
        states = self._open()
        for group, given in zip(self.param_groups, state_dict["param_groups"]):
            for parameter, number in zip(group["params"], given["params"]):
                if state := state_dict["state"].get(number):
                    weight = self._weight(parameter)
                    exp_avg, exp_avg_sq, n_updates = from_torch(self.core_rule, state)
                    flat = [None if s is None else flat_like(weight, s) for s in (state.get("master"), exp_avg, exp_avg_sq)]
                    states.write(self._numbers[parameter], weight, *flat, n_updates)
                    if parameter in self._on_host:
                        parameter.copy_(weight)


def check(parameter: nn.Parameter) -> None:
    if parameter.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise Error(f"parameters are fp32, fp16 or bf16, not {parameter.dtype}", "usage")
    if parameter.is_meta:
        raise Error("a parameter is on the meta device and has no memory; give the model to a Booster, or memory to it", "usage")
    if torch.empty_like(parameter, device="meta").stride() != parameter.stride():
        raise Error(f"a parameter of sizes {tuple(parameter.shape)} has gaps or overlaps; give it memory of its own", "usage")


def like(weight: torch.Tensor, flat: torch.Tensor) -> torch.Tensor:
    """Values in the order of the weight's memory, with its sizes and strides."""
    return flat.as_strided(weight.shape, weight.stride())


def flat_like(weight: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    ordered = torch.empty_like(weight, dtype=torch.float32).copy_(values)
    return ordered.as_strided((weight.numel(),), (1,))
