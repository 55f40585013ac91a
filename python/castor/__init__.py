# SPDX-License-Identifier: Apache-2.0
"""Castor trains PyTorch models whose parameters, gradients and optimizer states do not fit on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch  # loads the libraries that castor._core needs

from castor import _built_for

if torch.__version__ != _built_for.TORCH:
    raise ImportError(
        f"this castor was built for torch {_built_for.TORCH}, and torch {torch.__version__} is installed; build it again "
        "with: pip install --no-build-isolation --force-reinstall --no-deps ."
    )

from castor._access import gathered, grad, master, profile, set_grad, stats, trace  # noqa: E402
from castor._errors import Error  # noqa: E402

if TYPE_CHECKING:
    from castor import booster, cluster, integrations, io, lazy, logging, mixed_precision, nn, utils, zero
    from castor._estimate import estimate
    from castor._launch import launch, launch_from_openmpi, launch_from_slurm, launch_from_torch

__version__ = _built_for.VERSION

LAUNCH = ("launch", "launch_from_openmpi", "launch_from_slurm", "launch_from_torch")
MODULES = ("booster", "cluster", "integrations", "io", "lazy", "logging", "mixed_precision", "nn", "utils", "zero")
__all__ = ["Error", "estimate", "gathered", "grad", "master", "profile", "set_grad", "stats", "trace", *LAUNCH, *MODULES]


def __getattr__(name: str) -> object:
    """Imports what most scripts do without when it is first used."""
    import importlib

    if name in LAUNCH:
        return getattr(importlib.import_module("castor._launch"), name)
    if name == "estimate":
        return importlib.import_module("castor._estimate").estimate
    if name in MODULES:
        return importlib.import_module(f"castor.{name}")
    raise AttributeError(f"module 'castor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
