# SPDX-License-Identifier: Apache-2.0
"""The rank of this process, and the number of ranks: those of torch.distributed, and 0 of 1 without it."""

from __future__ import annotations

import os

import torch.distributed as dist

# Each launcher's name for the rank among the processes of one host.
LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")


def initialized() -> bool:
    return dist.is_available() and dist.is_initialized()


def rank_of(group: dist.ProcessGroup | None = None) -> int:
    """The rank in `group`, or among all; -1 outside of the group."""
    return dist.get_rank(group) if initialized() else 0


def world_size_of(group: dist.ProcessGroup | None = None) -> int:
    return dist.get_world_size(group) if initialized() else 1


def local_rank() -> int | None:
    """None where no launcher states it and there are several ranks."""
    for name in LOCAL_RANKS:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0 if world_size_of() == 1 else None
