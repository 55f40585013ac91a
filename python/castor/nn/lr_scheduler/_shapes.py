# SPDX-License-Identifier: Apache-2.0
"""Schedulers whose rate follows from the number of the step alone: a training may resume at any of them.

With a warm-up of N steps, step s < N has (s + 1) / N of the rate, and the curve begins at step N."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from castor._errors import Error

Rate = float | Tensor


class Shaped(LRScheduler):
    """A warm-up, and a curve after it."""

    warmup_steps: int = 0

    def curve(self, rate: Rate, step: int) -> Rate:
        """The rate at `step` after the warm-up, where the optimizer's is `rate`."""
        raise NotImplementedError

    def warmup_share(self, step: int) -> float:
        return (step + 1) / self.warmup_steps

    def get_lr(self) -> list[Rate]:
        step = self.last_epoch
        if step < self.warmup_steps:
            return [rate * self.warmup_share(step) for rate in self.base_lrs]
        return [self.curve(rate, step - self.warmup_steps) for rate in self.base_lrs]

    def _get_closed_form_lr(self) -> list[Rate]:
        return self.get_lr()


def cosine(rate: Rate, eta_min: float, step: int, n_steps: int) -> Rate:
    """Half a cosine from `rate` at step 0 to eta_min at step n_steps; on to the other half, as torch's, from then on."""
    return eta_min + (rate - eta_min) * (1 + math.cos(math.pi * step / max(n_steps, 1))) / 2


class CosineAnnealingWarmupLR(Shaped):
    """From the optimizer's rate to eta_min at total_steps along half a cosine."""

    def __init__(
        self, optimizer: Optimizer, total_steps: int, warmup_steps: int = 0, eta_min: float = 0.0, last_epoch: int = -1
    ):
        self.warmup_steps = int(warmup_steps)
        self.n_annealed = total_steps - self.warmup_steps
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def curve(self, rate: Rate, step: int) -> Rate:
        return cosine(rate, self.eta_min, step, self.n_annealed)


class FlatAnnealingWarmupLR(Shaped):
    """The optimizer's rate for a share pct_start of the steps after the warm-up, then half a cosine to eta_min."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        warmup_steps: int = 0,
        pct_start: float = 0.72,
        eta_min: float = 0,
        last_epoch: int = -1,
    ):
        if not 0 <= pct_start <= 1:
            raise Error(f"pct_start is a share from 0 to 1, not {pct_start}", "usage", "pct_start")
        self.warmup_steps = int(warmup_steps)
        n_steps = total_steps - self.warmup_steps
        self.n_flat = int(n_steps * pct_start)
        self.n_annealed = n_steps - self.n_flat
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def curve(self, rate: Rate, step: int) -> Rate:
        return rate if step < self.n_flat else cosine(rate, self.eta_min, step - self.n_flat, self.n_annealed)


class FlatAnnealingLR(FlatAnnealingWarmupLR):
    """The optimizer's rate for a share pct_start of the steps, then half a cosine to 0."""

    def __init__(self, optimizer: Optimizer, total_steps: int, pct_start: float = 0.72, last_epoch: int = -1):
        super().__init__(optimizer, total_steps, pct_start=pct_start, last_epoch=last_epoch)


class LinearWarmupLR(Shaped):
    """Step s of the warm-up of N has (s + 1) / (N + 1) of the rate; then straight down to 0 at total_steps."""

    def __init__(self, optimizer: Optimizer, total_steps: int, warmup_steps: int = 0, last_epoch: int = -1):
        self.warmup_steps = int(warmup_steps)
        self.n_down = total_steps - self.warmup_steps
        super().__init__(optimizer, last_epoch)

    def warmup_share(self, step: int) -> float:
        return (step + 1) / (self.warmup_steps + 1)

    def curve(self, rate: Rate, step: int) -> Rate:
        return rate * max(self.n_down - step, 0) / max(self.n_down, 1)


class MultiStepWarmupLR(Shaped):
    """The rate times `gamma` at each of the milestones, which count from the first step of the training."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        warmup_steps: int = 0,
        milestones: Sequence[int] = (),
        gamma: float = 0.1,
        last_epoch: int = -1,
    ):
        if not milestones:
            raise Error("MultiStepWarmupLR needs milestones, the steps at which the rate falls", "usage", "milestones")
        self.warmup_steps = int(warmup_steps)
        self.milestones = sorted(milestone - self.warmup_steps for milestone in milestones if milestone >= warmup_steps)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def curve(self, rate: Rate, step: int) -> Rate:
        return rate * self.gamma ** bisect.bisect_right(self.milestones, step)


class PolynomialWarmupLR(Shaped):
    """From the optimizer's rate to end_lr at total_steps, as a polynomial of degree `power`."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_steps: int,
        warmup_steps: int = 0,
        end_lr: float = 0.0001,
        power: float = 1.0,
        last_epoch: int = -1,
    ):
        if end_lr < 0:
            raise Error(f"end_lr is 0 or more, not {end_lr}", "usage", "end_lr")
        self.warmup_steps = int(warmup_steps)
        self.n_down = max(total_steps - self.warmup_steps, 1)
        self.end_lr = end_lr
        self.power = power
        super().__init__(optimizer, last_epoch)

    def curve(self, rate: Rate, step: int) -> Rate:
        return (rate - self.end_lr) * (1 - min(step, self.n_down) / self.n_down) ** self.power + self.end_lr


class PolynomialLR(PolynomialWarmupLR):
    """From the optimizer's rate to end_lr at total_steps, as a polynomial of degree `power`."""

    def __init__(
        self, optimizer: Optimizer, total_steps: int, end_lr: float = 0.0001, power: float = 1.0, last_epoch: int = -1
    ):
        super().__init__(optimizer, total_steps, end_lr=end_lr, power=power, last_epoch=last_epoch)
