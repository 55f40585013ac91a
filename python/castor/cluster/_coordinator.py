# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import torch.distributed as dist

from castor._errors import Error
from castor._ranks import initialized, local_rank, rank_of, world_size_of

Args = ParamSpec("Args")
Result = TypeVar("Result")


class DistCoordinator:
    """What this process may do as one of several ranks. Before castor.launch it is rank 0 of 1.

    process_group: of the methods that take one, the ranks among which the process is first or last, or that wait; None:
    all.
    """

    @property
    def rank(self) -> int:
        return rank_of()

    @property
    def world_size(self) -> int:
        return world_size_of()

    @property
    def local_rank(self) -> int:
        """The rank among the processes of this host."""
        rank = local_rank()
        if rank is None:
            raise Error(
                "the rank on this host is not known: start the script with torchrun, srun or mpirun, or state local_rank in "
                "castor.launch",
                "usage",
                "local_rank",
            )
        return rank

    def is_master(self, process_group: dist.ProcessGroup | None = None) -> bool:
        return rank_of(process_group) == 0

    def is_node_master(self) -> bool:
        return self.local_rank == 0

    def is_last_process(self, process_group: dist.ProcessGroup | None = None) -> bool:
        return rank_of(process_group) == world_size_of(process_group) - 1

    def print_on_master(self, msg: str, process_group: dist.ProcessGroup | None = None) -> None:
        if self.is_master(process_group):
            print(msg, flush=True)

    def print_on_node_master(self, msg: str) -> None:
        if self.is_node_master():
            print(msg, flush=True)

    @contextlib.contextmanager
    def priority_execution(self, executor_rank: int = 0, process_group: dist.ProcessGroup | None = None) -> Iterator[None]:
        """The other ranks enter when `executor_rank` has left, by an exception too."""
        is_executor = rank_of(process_group) == executor_rank
        if not is_executor:
            self.block_all(process_group)
        try:
            yield
        finally:
            if is_executor:
                self.block_all(process_group)

    def block_all(self, process_group: dist.ProcessGroup | None = None) -> None:
        """Waits until every rank has come here."""
        if initialized():
            dist.barrier(process_group)

    def on_master_only(
        self, process_group: dist.ProcessGroup | None = None
    ) -> Callable[[Callable[Args, Result]], Callable[Args, Result | None]]:
        """A decorator: the function runs on the first rank alone, and returns None on the others."""

        def decorate(function: Callable[Args, Result]) -> Callable[Args, Result | None]:
            @functools.wraps(function)
            def on_master(*args: Args.args, **kwargs: Args.kwargs) -> Result | None:
                return function(*args, **kwargs) if self.is_master(process_group) else None

            return on_master

        return decorate

    def destroy(self, process_group: dist.ProcessGroup | None = None) -> None:
        """Ends the process groups, or the one given."""
        if initialized():
            dist.destroy_process_group(process_group)
