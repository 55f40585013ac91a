# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from castor._errors import Error
from castor._ranks import initialized, rank_of, world_size_of

Coordinate = tuple[int, ...]


class ProcessGroupMesh:
    """All ranks in a grid of the given sizes, in row-major order, and groups of them. On torch's DeviceMesh.

    Every rank makes the same mesh and asks for the same groups in the same order, since groups are made together.
    """

    def __init__(self, *size: int):
        if not initialized():
            raise Error("a ProcessGroupMesh is made of ranks: call castor.launch or launch_from_torch first", "usage")
        if math.prod(size) != world_size_of():
            sizes = " x ".join(map(str, size))
            raise Error(f"a mesh of {sizes} has {math.prod(size)} ranks, and there are {world_size_of()}", "usage", "size")
        self._shape = size
        self._groups: dict[tuple[Coordinate, str | None], dist.ProcessGroup] = {}
        self._mesh = init_device_mesh("cuda" if torch.cuda.is_available() else "cpu", size)

    @property
    def shape(self) -> Coordinate:
        return self._shape

    @property
    def rank(self) -> int:
        return rank_of()

    @property
    def device_mesh(self) -> DeviceMesh:
        return self._mesh

    def size(self, dim: int | None = None) -> int | Coordinate:
        return self._shape if dim is None else self._shape[dim]

    def coordinate(self, dim: int | None = None) -> int | Coordinate:
        """Of this rank."""
        mine = self.unravel(self.rank, self._shape)
        return mine if dim is None else mine[dim]

    @staticmethod
    def unravel(rank: int, shape: Coordinate) -> Coordinate:
        """The place of a rank in a grid."""
        place = []
        for size in reversed(shape):
            rank, at = divmod(rank, size)
            place.append(at)
        return tuple(reversed(place))

    @staticmethod
    def ravel(coord: Coordinate, shape: Coordinate, mode: str = "raise") -> int:
        """The rank at a place. mode: of an index outside of the grid, 'raise' refuses it, 'wrap' goes round, 'clip' takes
        the nearest."""
        rank = 0
        for at, size in zip(coord, shape, strict=True):
            rank = rank * size + index_within(at, size, mode)
        return rank

    def get_group_along_axis(
        self, axis: int, indices_at_axis: Sequence[int] | None = None, backend: str | None = None
    ) -> dist.ProcessGroup | None:
        """The group of this rank along an axis; of the ranks at `indices_at_axis` alone, where they are given."""
        if indices_at_axis is None and backend is None:
            return self._mesh.get_group(axis)
        return self.create_group_along_axis(axis, indices_at_axis, backend)

    def create_group_along_axis(
        self,
        axis: int | Sequence[int],
        indices_at_axis: Sequence[int] | Sequence[Sequence[int]] | None = None,
        backend: str | None = None,
    ) -> dist.ProcessGroup | None:
        """Makes all groups along one axis or several; that of this rank, or None where `indices_at_axis` leave it out."""
        axes = [axis] if isinstance(axis, int) else list(axis)
        indices: Sequence = [range(self._shape[each]) for each in axes]
        if indices_at_axis is not None:
            indices = [indices_at_axis] if isinstance(axis, int) else indices_at_axis
        mine = None
        for ranks in self._lines(axes, indices):
            group = self.get_group(ranks, backend)
            if self.rank in ranks:
                mine = group
        return mine

    def _lines(self, axes: Sequence[int], indices: Sequence[Sequence[int]]) -> list[list[int]]:
        """The ranks of each group that varies along `axes`."""
        others = [range(1) if at in axes else range(size) for at, size in enumerate(self._shape)]
        lines = []
        for base in itertools.product(*others):
            places = [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*indices)]
            coordinates = [tuple(place.get(at, index) for at, index in enumerate(base)) for place in places]
            lines.append([self.ravel(coordinate, self._shape) for coordinate in coordinates])
        return lines

    def get_group(self, ranks_in_group: Sequence[int], backend: str | None = None) -> dist.ProcessGroup:
        """The group of these ranks, made at the first call."""
        key = tuple(sorted(ranks_in_group)), backend
        if key not in self._groups:
            self._groups[key] = dist.new_group(list(key[0]), backend=backend)
        return self._groups[key]

    def get_ranks_in_group(self, group: dist.ProcessGroup) -> list[int]:
        return dist.get_process_group_ranks(group)

    def destroy_mesh_process_groups(self) -> None:
        """Ends the groups made by get_group and create_group_along_axis."""
        for group in self._groups.values():
            dist.destroy_process_group(group)
        self._groups.clear()


def index_within(at: int, size: int, mode: str) -> int:
    if mode == "wrap":
        return at % size
    if mode == "clip":
        return min(max(at, 0), size - 1)
    if not 0 <= at < size:
        raise Error(f"index {at} is outside of an axis of {size}", "usage", "coord")
    return at
