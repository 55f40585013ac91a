# SPDX-License-Identifier: Apache-2.0
"""What all plugins have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch

from castor._errors import Error
from castor._precision import DTYPES, SCALING, precision_of
from castor._values import check_value
from castor.booster._grid import Grid, StageManager, check_ranks
from castor.booster._options import (
    check_choices,
    check_names,
    check_types,
    core_options,
    is_given,
    option,
    unused,
    warn_of,
    warn_of_unused,
)

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset, DistributedSampler

SCALER = ("initial_scale", "min_scale", "max_scale", "growth_factor", "backoff_factor", "growth_interval", "hysteresis")


def scaling(name: str, default: float) -> Any:
    takes, within = SCALING[name]
    return option(default, takes=takes, within=within)


@dataclass(kw_only=True, eq=False, repr=False)
class Plugin:
    """A strategy of the core by its name, and the options of its training.

    precision: 'bf16', 'fp16' or 'fp32', or such a dtype, that parameters get and the model computes in, with masters of
    fp32 in any case; None: that of the model. max_norm: the norm that gradients are clipped to in every step; 0: none.
    micro_batches: the backward passes of each step. Stated, updates begin during the last one, so steps are shorter; a
    further pass, and values of the optimizer that change between it and step(), are refused. None: any number.
    initial_scale to hysteresis: dynamic loss scaling under fp16. cast_inputs: floating-point inputs of the model get the
    dtype of precision='bf16' or 'fp16'. force_outputs_fp32: its floating-point results become fp32. units: the modules to
    fetch at once, by their names or classes; None: the innermost repeated blocks. debug: an access to a parameter outside of
    its module is a castor.Error, at a cost for each operator.
    """

    precision: torch.dtype | str | None = option(None, choices=(None, *DTYPES))
    max_norm: float | None = option(0.0, takes="0 (off) or a number above it", within=lambda norm: norm >= 0)
    norm_type: float = 2.0
    micro_batches: int | None = option(None, takes="a whole number from 1, or None", within=lambda n: n >= 1)
    initial_scale: float = scaling("initial_scale", 2**16)
    min_scale: float = scaling("min_scale", 1)
    growth_factor: float = scaling("growth_factor", 2)
    backoff_factor: float = scaling("backoff_factor", 0.5)
    growth_interval: int = scaling("growth_interval", 1000)
    hysteresis: int = scaling("hysteresis", 2)
    max_scale: float = scaling("max_scale", 2**32)
    cast_inputs: bool = True
    force_outputs_fp32: bool = False
    units: Collection[str | type] | str | type | None = option(None, takes="names or classes of modules")
    debug: bool = False
    fp8_communication: bool = unused(False, "no tensor is sent in fp8")

    name = "gemini"
    tp_size = pp_size = extra_dp_size = 1
    sp_size = None

    def __new__(cls, *args: Any, **options: Any) -> Plugin:
        check_names(cls, options)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_types(self)
        self._settle()
        check_choices(self)
        self._check_scales()
        if self.norm_type != 2:
            raise Error(f"norm_type is {self.norm_type}; Castor clips by the 2-norm", "usage", "norm_type")
        sizes = {"tp": self.tp_size, "pp": self.pp_size, "sp": 1 if self.sp_size is None else self.sp_size}
        stated = {f"{axis}_size": size for axis, size in sizes.items()}
        check_ranks(type(self).__name__, {**stated, "extra_dp_size": self.extra_dp_size})
        self._grid = Grid(self._axes(), sizes)
        warn_of_unused(self)
        self._warn_of_scaler()

    def _settle(self) -> None:
        """Brings options to the form that the rest reads, before what they say together is checked."""
        if self.precision is not None:
            self.precision = precision_of(self.precision, "precision")

    def _check_scales(self) -> None:
        low, high = self.min_scale, self.max_scale
        check_value("max_scale", high, f"a number from min_scale, {low}", high >= low)
        first = self.initial_scale
        check_value("initial_scale", first, f"a number from min_scale to max_scale, {low} to {high}", low <= first <= high)

    def _axes(self) -> tuple[str, ...]:
        return ("dp", "pp", "tp", "sp")

    def _warn_of_scaler(self) -> None:
        given = [each.name for each in fields(self) if each.name in SCALER and is_given(self, each)]
        if given and self.precision in ("bf16", "fp32"):
            warn_of(self, given[0], f"losses are scaled under fp16, and precision is {self.precision}")

    @property
    def options(self) -> dict[str, str]:
        """Of the core."""
        return core_options(self)

    @property
    def scaler(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in SCALER}

    @property
    def dp_size(self) -> int:
        return self._grid.size("dp")

    @property
    def dp_group(self) -> dist.ProcessGroup | None:
        return self._grid.group("dp")

    @property
    def pp_group(self) -> dist.ProcessGroup | None:
        return self._grid.group("pp")

    @property
    def tp_group(self) -> dist.ProcessGroup | None:
        return self._grid.group("tp")

    @property
    def sp_group(self) -> dist.ProcessGroup | None:
        return self._grid.group("sp")

    @property
    def stage_manager(self) -> StageManager:
        return StageManager(self._grid)

    def prepare_dataloader(
        self,
        dataset: Dataset,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 1024,
        drop_last: bool = False,
        pin_memory: bool = False,
        num_workers: int = 0,
        distributed_sampler_cls: type[DistributedSampler] | None = None,
        **options: Any,
    ) -> DataLoader:
        """A DataLoader over this rank's part of the data, whose order follows from `seed`. options: further ones of
        DataLoader."""
        from castor.utils._data import EpochSampler, seeded_loader

        sampler_class = distributed_sampler_cls or EpochSampler
        sampler = sampler_class(dataset, self.dp_size, self._grid.coordinate("dp"), shuffle, seed, drop_last)
        options = {"sampler": sampler, "drop_last": drop_last, "pin_memory": pin_memory, "num_workers": num_workers, **options}
        return seeded_loader(dataset, seed, batch_size=batch_size, **options)
