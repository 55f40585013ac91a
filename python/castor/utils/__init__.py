# SPDX-License-Identifier: Apache-2.0
"""Devices, seeds, timers and data loaders."""

from castor.utils._data import get_dataloader
from castor.utils._device import get_current_device, set_seed
from castor.utils._timer import MultiTimer, Timer

__all__ = ["MultiTimer", "Timer", "get_current_device", "get_dataloader", "set_seed"]
