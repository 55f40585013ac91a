# SPDX-License-Identifier: Apache-2.0
"""Precisions to give a Booster whose plugin states none."""

from __future__ import annotations

from dataclasses import dataclass

from castor._errors import Error, nearest


class MixedPrecision:
    """The dtype that parameters get and the model computes in, with masters of fp32; and the scaling of the loss."""

    precision: str

    def options(self) -> dict[str, float]:
        """The options of a plugin for the scaling of the loss."""
        return {}


class BF16MixedPrecision(MixedPrecision):
    precision = "bf16"


@dataclass
class FP16TorchMixedPrecision(MixedPrecision):
    """The scaling of torch.amp.GradScaler: every overflow lowers the scale."""

    precision = "fp16"

    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000

    def options(self) -> dict[str, float]:
        return {
            "initial_scale": self.init_scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "hysteresis": 1,
        }


BY_NAME = {"fp16": FP16TorchMixedPrecision, "bf16": BF16MixedPrecision}


def mixed_precision_of(given: str | MixedPrecision) -> MixedPrecision:
    if isinstance(given, MixedPrecision):
        return given
    if given not in BY_NAME:
        hint = nearest(given, BY_NAME) if isinstance(given, str) else ""
        raise Error(
            f"mixed_precision takes one of {', '.join(BY_NAME)}, or an object of castor.mixed_precision, not {given!r}{hint}",
            "usage",
            "mixed_precision",
        )
    return BY_NAME[given]()
