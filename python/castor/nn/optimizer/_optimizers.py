# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from castor._values import check_value, is_number
from castor.nn.optimizer._standalone import StandaloneOptimizer


class HybridAdam(StandaloneOptimizer):
    """Adam with decoupled weight decay (AdamW), or with adamw_mode=False the decay in the gradient."""

    def __init__(
        self,
        model_params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        adamw_mode: bool = True,
        nvme_offload_fraction: float = 0.0,
        nvme_offload_dir: str | os.PathLike | None = None,
    ):
        check_value("adamw_mode", adamw_mode, "True or False", isinstance(adamw_mode, bool))
        self.core_rule = "adamw" if adamw_mode else "adam"
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": bias_correction}
        super().__init__(model_params, values, nvme_offload_fraction, nvme_offload_dir)


class CPUAdam(HybridAdam):
    """HybridAdam by its name for models on the host."""


class FusedAdam(HybridAdam):
    """HybridAdam by its name for models on a GPU. set_grad_none: what zero_grad() does unless it says otherwise."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adamw_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        set_grad_none: bool = True,
    ):
        super().__init__(params, lr, bias_correction, betas, eps, weight_decay, adamw_mode)
        for group in (self.defaults, *self.param_groups):
            group["amsgrad"] = amsgrad
        self.check_values(self.defaults)
        self.set_grad_none = set_grad_none


class Lamb(StandaloneOptimizer):
    """LAMB with corrected bias (You et al. 2020, algorithm 2)."""

    core_rule = "lamb"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
    ):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})


class FusedLAMB(StandaloneOptimizer):
    """Lamb that clips gradients to max_grad_norm over all of them; 0: not at all. set_grad_none: as of FusedAdam."""

    core_rule = "lamb"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_nvlamb: bool = False,
    ):
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "bias_correction": bias_correction}
        fixed = {"amsgrad": amsgrad, "adam_w_mode": adam_w_mode, "grad_averaging": grad_averaging, "use_nvlamb": use_nvlamb}
        super().__init__(params, {**values, **fixed})
        takes = "0 (off) or a number above it"
        check_value("max_grad_norm", max_grad_norm, takes, is_number(max_grad_norm) and max_grad_norm >= 0)
        self.max_grad_norm = max_grad_norm
        self.set_grad_none = set_grad_none

    def _grad_scale(self, stepped: list[nn.Parameter]) -> float:
        if not self.max_grad_norm or not stepped:
            return 1.0
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in stepped]).item()
        return min(1.0, self.max_grad_norm / (norm + 1e-6)) if math.isfinite(norm) else 1.0


class Lars(StandaloneOptimizer):
    """LARS (You, Gitman and Ginsburg 2017) with the trust coefficient eeta."""

    core_rule = "lars"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        eeta: float = 1e-3,
        weight_decay: float = 0,
        epsilon: float = 0.0,
    ):
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "eeta": eeta, "weight_decay": weight_decay, "epsilon": epsilon}
        )


class FusedSGD(StandaloneOptimizer):
    """SGD as torch.optim.SGD, without dampening."""

    core_rule = "sgd"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        wd_after_momentum: bool = False,
    ):
        values = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, {**values, "dampening": dampening, "wd_after_momentum": wd_after_momentum})
