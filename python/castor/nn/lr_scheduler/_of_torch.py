# SPDX-License-Identifier: Apache-2.0
"""Torch's own schedulers. total_steps is read by those whose curve depends on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from torch.optim import Optimizer, lr_scheduler

Factor = Callable[[int], float]


class CosineAnnealingLR(lr_scheduler.CosineAnnealingLR):
    """From the optimizer's rate to eta_min along half a cosine."""

    def __init__(self, optimizer: Optimizer, total_steps: int, eta_min: float = 0, last_epoch: int = -1):
        super().__init__(optimizer, total_steps, eta_min, last_epoch)


class ConstantLR(lr_scheduler.ConstantLR):
    """The optimizer's rate times `factor` for the first total_iters steps, and the rate itself from then on."""

    def __init__(
        self, optimizer: Optimizer, total_steps: int, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ):
        super().__init__(optimizer, factor, total_iters, last_epoch)


class ExponentialLR(lr_scheduler.ExponentialLR):
    """The rate times `gamma` after each step."""

    def __init__(self, optimizer: Optimizer, total_steps: int, gamma: float = 1.0, last_epoch: int = -1):
        super().__init__(optimizer, gamma, last_epoch)


class LambdaLR(lr_scheduler.LambdaLR):
    """The optimizer's rate times lr_lambda(step); a list of functions has one for each group."""

    def __init__(self, optimizer: Optimizer, total_steps: int, lr_lambda: Factor | list[Factor], last_epoch: int = -1):
        super().__init__(optimizer, lr_lambda, last_epoch)


class MultiplicativeLR(lr_scheduler.MultiplicativeLR):
    """The rate of the step before times lr_lambda(step); a list of functions has one for each group."""

    def __init__(self, optimizer: Optimizer, total_steps: int, lr_lambda: Factor | list[Factor], last_epoch: int = -1):
        super().__init__(optimizer, lr_lambda, last_epoch)


class MultiStepLR(lr_scheduler.MultiStepLR):
    """The rate times `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, total_steps: int, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ):
        super().__init__(optimizer, milestones, gamma, last_epoch)


class OneCycleLR(lr_scheduler.OneCycleLR):
    """Up to the optimizer's rate, and down far below the first one: torch's, whose max_lr is the rate of each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 10000.0,
        three_phase: bool = False,
        last_epoch: int = -1,
    ):
        super().__init__(
            optimizer,
            [group["lr"] for group in optimizer.param_groups],
            total_steps=total_steps,
            pct_start=pct_start,
            anneal_strategy=anneal_strategy,
            cycle_momentum=cycle_momentum,
            base_momentum=base_momentum,
            max_momentum=max_momentum,
            div_factor=div_factor,
            final_div_factor=final_div_factor,
            three_phase=three_phase,
            last_epoch=last_epoch,
        )


class StepLR(lr_scheduler.StepLR):
    """The rate times `gamma` after every step_size steps."""

    def __init__(self, optimizer: Optimizer, total_steps: int, step_size: int = 1, gamma: float = 0.1, last_epoch: int = -1):
        super().__init__(optimizer, step_size, gamma, last_epoch)
