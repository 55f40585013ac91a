# SPDX-License-Identifier: Apache-2.0
"""Precisions to give a Booster whose plugin states none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import get_type_hints

import torch

from castor._errors import Error, nearest
from castor._precision import SCALING
from castor._values import check_value, fits

__all__ = ["BF16MixedPrecision", "FP16TorchMixedPrecision", "MixedPrecision"]


class MixedPrecision:
    """The dtype that parameters get and the model computes in, with masters of fp32; and the scaling of the loss."""

    precision: str

    def options(self) -> dict[str, float]:
        """The options of a plugin for the scaling of the loss."""
        return {}


class BF16MixedPrecision(MixedPrecision):
    """bf16, whose losses are not scaled."""

    precision = "bf16"


OPTIONS = {"init_scale": "initial_scale"}  # of a plugin, where names differ


@dataclass
class FP16TorchMixedPrecision(MixedPrecision):
    """The scaling of torch.amp.GradScaler: every overflow lowers the scale."""

    precision = "fp16"

    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000

    def __post_init__(self) -> None:
        hints = get_type_hints(FP16TorchMixedPrecision)
        for each in fields(FP16TorchMixedPrecision):
            value = getattr(self, each.name)
            takes, within = SCALING[OPTIONS.get(each.name, each.name)]
            check_value(each.name, value, takes, fits(value, hints[each.name]) and within(value))

    def options(self) -> dict[str, float]:
        return {
            "initial_scale": self.init_scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "hysteresis": 1,
        }


BY_NAME = {"fp16": FP16TorchMixedPrecision, "bf16": BF16MixedPrecision}
BY_DTYPE = {torch.float16: FP16TorchMixedPrecision, torch.bfloat16: BF16MixedPrecision}


def mixed_precision_of(given: torch.dtype | str | MixedPrecision) -> MixedPrecision:
    if isinstance(given, MixedPrecision):
        return given
    if isinstance(given, torch.dtype) and given in BY_DTYPE:
        return BY_DTYPE[given]()
    if not isinstance(given, str) or given not in BY_NAME:
        takes = f"one of {', '.join(BY_NAME)}, or an object of castor.mixed_precision"
        raise Error(f"mixed_precision takes {takes}, not {given!r}{nearest(given, BY_NAME)}", "usage", "mixed_precision")
    return BY_NAME[given]()
