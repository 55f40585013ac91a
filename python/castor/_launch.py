# SPDX-License-Identifier: Apache-2.0
"""Joining the ranks that torchrun, srun or mpirun has started."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import torch
import torch.distributed as dist

from castor._errors import Error
from castor._ranks import initialized
from castor.logging import get_dist_logger
from castor.utils import set_seed


@dataclass(frozen=True)
class Launcher:
    """A program that starts the ranks, and the environment variables by which it tells each its place."""

    name: str
    command: str
    rank: str
    world_size: str
    local_rank: str


TORCHRUN = Launcher("torchrun", "torchrun --nproc-per-node 1 script.py", "RANK", "WORLD_SIZE", "LOCAL_RANK")
SLURM = Launcher("srun", "srun -n 1 python script.py", "SLURM_PROCID", "SLURM_NPROCS", "SLURM_LOCALID")
OPENMPI = Launcher(
    "mpirun", "mpirun -n 1 python script.py", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"
)


def launch(
    rank: int,
    world_size: int,
    host: str,
    port: int,
    backend: str = "nccl",
    local_rank: int | None = None,
    seed: int = 1024,
    verbose: bool = True,
) -> None:
    """Makes this process `rank` of `world_size`, which meet at `host`:`port`; sets its GPU and the seeds.

    backend: 'nccl' means NCCL for tensors on GPUs and Gloo for the others, and Gloo alone without a GPU. local_rank: the
    rank on its host, which numbers the GPU; stated, it is left in LOCAL_RANK as torchrun does. A second call does nothing
    but set the seeds, or raises castor.Error where it asks for another rank.
    """
    if world_size < 1 or not 0 <= rank < world_size:
        raise Error(
            f"rank is {rank} and world_size {world_size}; ranks are numbered from 0 to world_size - 1", "usage", "rank"
        )
    if initialized():
        check_same(rank, world_size)
    else:
        set_device(rank, local_rank)
        where = f"[{host}]" if ":" in host else host
        dist.init_process_group(
            backend_for_devices(backend), init_method=f"tcp://{where}:{port}", rank=rank, world_size=world_size
        )
    if local_rank is not None:
        os.environ["LOCAL_RANK"] = str(local_rank)
    set_seed(seed)
    if verbose:
        get_dist_logger().info(f"world size {world_size}, backend {dist.get_backend()}", ranks=[0])


def launch_from_torch(config: object = None, backend: str = "nccl", seed: int = 1024, verbose: bool = True) -> None:
    """`launch` with the place that torchrun gave. config: of older scripts, which is not read."""
    if config:
        warnings.warn("launch_from_torch(config=…) has no effect: plugins have the options", stacklevel=2)
    rank, world_size, local_rank = place_from(TORCHRUN, "launch_from_torch", also=("MASTER_ADDR", "MASTER_PORT"))
    host, port = os.environ["MASTER_ADDR"], number("MASTER_PORT")
    launch(rank, world_size, host, port, backend, local_rank, seed, verbose)


def launch_from_slurm(host: str, port: int, backend: str = "nccl", seed: int = 1024, verbose: bool = True) -> None:
    """`launch` with the place that srun gave."""
    rank, world_size, local_rank = place_from(SLURM, "launch_from_slurm")
    launch(rank, world_size, host, port, backend, local_rank, seed, verbose)


def launch_from_openmpi(host: str, port: int, backend: str = "nccl", seed: int = 1024, verbose: bool = True) -> None:
    """`launch` with the place that mpirun gave."""
    rank, world_size, local_rank = place_from(OPENMPI, "launch_from_openmpi")
    launch(rank, world_size, host, port, backend, local_rank, seed, verbose)


def place_from(launcher: Launcher, caller: str, also: tuple[str, ...] = ()) -> tuple[int, int, int]:
    """Rank, number of ranks, and rank on this host."""
    names = (launcher.rank, launcher.world_size, launcher.local_rank)
    missing = [name for name in (*names, *also) if name not in os.environ]
    if missing:
        raise Error(
            f"castor.{caller}() reads environment variables that {launcher.name} sets, and {', '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; start the script with: {launcher.command}",
            "usage",
        )
    return number(launcher.rank), number(launcher.world_size), number(launcher.local_rank)


def number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise Error(f"the environment variable {name} is {text!r}; it takes a whole number", "usage", name)
    return int(text)


def check_same(rank: int, world_size: int) -> None:
    mine = dist.get_rank(), dist.get_world_size()
    if mine != (rank, world_size):
        raise Error(
            f"this process is rank {mine[0]} of {mine[1]} already, so it cannot become {rank} of {world_size}", "usage"
        )


def backend_for_devices(backend: str) -> str:
    if backend != "nccl":
        return backend
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def set_device(rank: int, local_rank: int | None) -> None:
    if not torch.cuda.is_available():
        return
    n_gpus = torch.cuda.device_count()
    if local_rank is not None and local_rank >= n_gpus:
        raise Error(f"rank {rank} has local rank {local_rank}, and this host has {n_gpus} GPUs; start fewer ranks", "usage")
    torch.cuda.set_device(rank % n_gpus if local_rank is None else local_rank)
