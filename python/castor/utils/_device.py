# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random

import torch


def get_current_device() -> torch.device:
    """The GPU of this rank; the CPU where there is none."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def set_seed(seed: int) -> None:
    """Of torch (all devices), Python's random, and NumPy where it is installed."""
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed % 2**32)
