# SPDX-License-Identifier: Apache-2.0
"""The ranks of a plugin in a grid of data, pipeline, tensor and sequence parallelism."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from castor._errors import Error
from castor._ranks import initialized, rank_of, world_size_of

if TYPE_CHECKING:
    import torch.distributed as dist

    from castor.cluster import ProcessGroupMesh


def check_ranks(owner: str, sizes: dict[str, int]) -> None:
    """sizes: of each option that divides the ranks."""
    stated = {name: size for name, size in sizes.items() if size != 1}
    for name, size in stated.items():
        if not isinstance(size, int) or size < 1:
            raise Error(f"{name} is {size!r}; it takes a whole number of ranks", "usage", name)
    n_ranks, n_needed = world_size_of(), math.prod(stated.values())
    if n_ranks % n_needed:
        asked = ", ".join(f"{name}={size}" for name, size in stated.items())
        there = "is 1" if n_ranks == 1 else f"are {n_ranks}"
        raise Error(
            f"{owner}({asked}) takes {n_needed} ranks or a multiple, and there {there}; start the script with torchrun "
            f"--nproc-per-node {n_needed}, and call castor.launch_from_torch() before it makes the plugin",
            "usage",
            next(iter(stated)),
        )


class Grid:
    """axes: from the outermost to the innermost. sizes: of each axis but 'dp', which has the ranks that are left.

    The groups are made at once where there are several ranks, since all make them together; else at the first use.
    """

    def __init__(self, axes: tuple[str, ...], sizes: dict[str, int]):
        self.axes = axes
        self._sizes = sizes
        self._mesh = self._make_mesh() if world_size_of() > 1 else None

    def size(self, axis: str) -> int:
        return world_size_of() // math.prod(self._sizes.values()) if axis == "dp" else self._sizes[axis]

    def coordinate(self, axis: str) -> int:
        """Of this rank."""
        at = rank_of()
        for inner in reversed(self.axes[self.axes.index(axis) + 1 :]):
            at //= self.size(inner)
        return at % self.size(axis)

    def group(self, axis: str) -> dist.ProcessGroup | None:
        """The ranks along `axis` that this one belongs to; None without castor.launch."""
        if not initialized():
            return None
        if self._mesh is None:
            self._mesh = self._make_mesh()
        return self._mesh.get_group_along_axis(self.axes.index(axis))

    def _make_mesh(self) -> ProcessGroupMesh:
        from castor.cluster import ProcessGroupMesh

        return ProcessGroupMesh(*map(self.size, self.axes))


class StageManager:
    """The stage of this rank in the pipeline."""

    def __init__(self, grid: Grid):
        self._grid = grid

    @property
    def num_stages(self) -> int:
        return self._grid.size("pp")

    @property
    def stage(self) -> int:
        return self._grid.coordinate("pp")

    def is_first_stage(self) -> bool:
        return self.stage == 0

    def is_last_stage(self) -> bool:
        return self.stage == self.num_stages - 1
