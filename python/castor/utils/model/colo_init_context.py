# SPDX-License-Identifier: Apache-2.0
"""The older name of castor.lazy.LazyInitContext."""

from __future__ import annotations

import torch

from castor.lazy import LazyInitContext

__all__ = ["ColoInitContext"]


class ColoInitContext(LazyInitContext):
    """device: as default_device of LazyInitContext."""

    def __init__(self, device: torch.device | str | int | None = None):
        super().__init__(default_device=device)
