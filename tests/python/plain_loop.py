# SPDX-License-Identifier: Apache-2.0
"""Training in plain torch operations, with the arithmetic that docs/plugin_abi.md states: the reference that every
placement equals to the last bit."""

from __future__ import annotations

import math

import torch
from torch import nn


class PlainLoop:
    """AdamW, Adam and SGD over fp32 masters and fp32 sums of gradients. Everything is resident, and nothing is Castor's.

    groups: dictionaries as torch.optim has them, with the values of `rule` ('adamw', 'adam', 'sgd'). dtype: that of the
    weights, where it is another than the model's, whose values are then those of the masters.
    """

    def __init__(self, model: nn.Module, rule: str, groups: list[dict], dtype: torch.dtype | None = None):
        self.rule = rule
        self.groups = groups
        self.sums: dict[nn.Parameter, torch.Tensor] = {}
        self.states = {p: State(p) for group in groups for p in group["params"] if p.requires_grad}
        for parameter in model.parameters() if dtype else ():
            master = stored(parameter.detach(), parameter)
            parameter.data = torch.empty_like(parameter, dtype=dtype)
            write_weight(parameter, master)
        self.order = [p for p in model.parameters() if p.requires_grad]  # of the norm
        for parameter in self.order:
            parameter.register_post_accumulate_grad_hook(self.take_gradient)

    def take_gradient(self, parameter: nn.Parameter) -> None:
        """Each firing counts by itself: micro-batches, and the uses that reentrant recompute repeats."""
        grad = stored(parameter.grad.to(parameter.dtype), parameter).float()
        parameter.grad = None
        self.sums[parameter] = self.sums[parameter] + grad if parameter in self.sums else grad

    def norm(self) -> float:
        total = 0.0
        for parameter in self.order:
            if parameter in self.sums:
                total += sum_of_squares(self.sums[parameter])
        return math.sqrt(total)

    def step(self, max_norm: float = 0, loss_scale: float = 1) -> bool:
        """False where gradients hold inf or nan; then nothing is updated."""
        scale = 1 / loss_scale
        if max_norm or loss_scale != 1:
            norm = self.norm() / loss_scale
            if not math.isfinite(norm):
                self.sums.clear()
                return False
            scale *= min(1.0, max_norm / (norm + 1e-6)) if max_norm else 1.0
        for group in self.groups:
            for parameter in group["params"]:
                if parameter in self.sums:
                    update = sgd if self.rule == "sgd" else adam
                    update(self.states[parameter], self.sums[parameter], scale, group, self.rule)
                    write_weight(parameter, self.states[parameter].master)
        self.sums.clear()
        return True


class State:
    def __init__(self, parameter: nn.Parameter):
        self.master = stored(parameter.detach(), parameter).float().clone()
        self.exp_avg = torch.zeros_like(self.master)
        self.exp_avg_sq = torch.zeros_like(self.master)
        self.n_updates = 0


def adam(s: State, grad: torch.Tensor, scale: float, group: dict, rule: str) -> None:
    s.n_updates += 1
    lr, (beta1, beta2), eps, decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
    g = grad * scale
    if rule == "adam" and decay:
        g = g + s.master * decay
    s.exp_avg = s.exp_avg * beta1 + g * (1 - beta1)
    s.exp_avg_sq = s.exp_avg_sq * beta2 + g * (1 - beta2) * g
    root = s.exp_avg_sq.double().sqrt().float()  # the one for fp32 is not rounded correctly where MKL takes it
    d = root * (1 / math.sqrt(1 - power(beta2, s.n_updates))) + eps
    p = s.master
    if rule == "adamw":
        p = p - p * (lr * decay)
    s.master = p - s.exp_avg / d * (lr / (1 - power(beta1, s.n_updates)))


def sgd(s: State, grad: torch.Tensor, scale: float, group: dict, rule: str) -> None:
    lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
    g = grad * scale + s.master * decay
    s.exp_avg = s.exp_avg * momentum + g
    d = g + s.exp_avg * momentum if group["nesterov"] else s.exp_avg
    s.master = s.master - d * lr


def power(base: float, n: int) -> float:
    """By repeated squaring."""
    result = 1.0
    while n:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


def sum_of_squares(values: torch.Tensor) -> float:
    """The tree of docs/plugin_abi.md: nodes of 256 children, each folded in halves."""
    x = values.double() ** 2
    while True:
        x = nn.functional.pad(x, (0, -x.numel() % 256)).view(-1, 256)
        for half in (128, 64, 32, 16, 8, 4, 2, 1):
            x = x[:, :half] + x[:, half : 2 * half]
        x = x.flatten()
        if x.numel() == 1:
            return x.item()


def stored(tensor: torch.Tensor, parameter: nn.Parameter) -> torch.Tensor:
    """The elements of `tensor` in the order of the parameter's memory."""
    ordered = torch.empty_strided(parameter.shape, parameter.stride(), dtype=tensor.dtype, device=tensor.device)
    return ordered.copy_(tensor).as_strided((parameter.numel(),), (1,))


def write_weight(parameter: nn.Parameter, master: torch.Tensor) -> None:
    """bf16 is rounded to nearest, ties away from zero."""
    with torch.no_grad():
        memory = parameter.as_strided((parameter.numel(),), (1,))
        if parameter.dtype == torch.bfloat16:
            rounded = (master.view(torch.int32) + 0x8000) >> 16
            memory.copy_(rounded.to(torch.int16).view(torch.bfloat16))
        else:
            memory.copy_(master)
