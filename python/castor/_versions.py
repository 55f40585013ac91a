# SPDX-License-Identifier: Apache-2.0
"""What tensors of the meta device are to hold: recorded operations, which run when the values are asked for."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import TreeSpec, tree_leaves, tree_unflatten


@dataclass(frozen=True)
class Layout:
    """A tensor's place in its storage of n_bytes."""

    dtype: torch.dtype
    sizes: torch.Size
    strides: tuple[int, ...]
    offset: int
    n_bytes: int

    @staticmethod
    def of(tensor: torch.Tensor) -> Layout:
        n_bytes = tensor.untyped_storage().nbytes()
        return Layout(tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), n_bytes)

    def over(self, storage: torch.UntypedStorage) -> torch.Tensor:
        return torch.empty(0, dtype=self.dtype, device=storage.device).set_(storage, self.offset, self.sizes, self.strides)

    def is_of(self, tensor: torch.Tensor) -> bool:
        mine = (self.dtype, self.sizes, self.strides, self.offset)
        return mine == (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())

    def fills_storage(self) -> bool:
        """No two elements share memory, and no byte of the storage is outside of them."""
        dense = torch.empty_strided(self.sizes, self.strides, device="meta")
        is_dense = torch.empty_like(dense).stride() == self.strides
        return is_dense and self.offset == 0 and self.sizes.numel() * self.dtype.itemsize == self.n_bytes


@dataclass(eq=False)
class Version:
    """The bytes of one storage from one operation to the next that writes them: the attribute castor_version of a storage of
    the meta device. device: where they are to be. bytes: those that are here already."""

    device: torch.device
    bytes: torch.UntypedStorage | None = None
    op: Op | None = None


@dataclass(frozen=True)
class Read:
    """A tensor that an operation takes. version: None where the operation overwrites all that it reads."""

    version: Version | None
    layout: Layout
    device: torch.device


@dataclass(eq=False)
class Op:
    """number: its place among all operations, in which they run: memory is written in place. leaves: its arguments, with a
    Read for each tensor of the meta device. made: by position in the results, new storages. written: by position in
    the leaves, storages as they are afterwards. generator: that of its random numbers, and its state before."""

    number: int
    func: torch._ops.OpOverload
    leaves: list[Any]
    spec: TreeSpec
    made: dict[int, tuple[Version, Layout]] = field(default_factory=dict)
    written: dict[int, Version] = field(default_factory=dict)
    generator: tuple[torch.Generator, torch.Tensor] | None = None
    default_dtype: torch.dtype = field(default_factory=torch.get_default_dtype)

    def reads(self) -> list[Version]:
        return [leaf.version for leaf in self.leaves if isinstance(leaf, Read) and leaf.version]

    def touches(self) -> set[Version]:
        return {*self.reads(), *self.written.values(), *(version for version, _ in self.made.values())}

    def call(self, leaves: list[Any]) -> Any:
        args, kwargs = tree_unflatten(leaves, self.spec)
        return self.func(*args, **kwargs)


Memory = dict[Version, torch.UntypedStorage]


def version_of(tensor: object) -> Version | None:
    """None for a tensor that is not of the meta device, or of which nothing is recorded."""
    with torch._C.DisableTorchFunction():
        if isinstance(tensor, torch.Tensor) and tensor.is_meta and tensor.layout == torch.strided:
            return getattr(tensor.untyped_storage(), "castor_version", None)
    return None


def read_of(tensor: torch.Tensor) -> Read:
    version = version_of(tensor)
    with torch._C.DisableTorchFunction():
        return Read(version, Layout.of(tensor), version.device)


def evaluate(reads: list[Read], kept: Memory | None = None) -> list[torch.Tensor]:
    """Tensors with the values, in memory of their own. Operations that lead to them run again; of their memory no more is
    held than is read later. kept: of an evaluation before, which this one goes on from, and leaves its own in; what is
    returned may share memory with it."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        wanted = [read.version for read in reads if read.version]
        memory = {} if kept is None else kept
        ops = needed(wanted, memory)
        n_reads = Counter(version for op in ops for version in op.reads()) + Counter(wanted)
        for version in [version for version in memory if not n_reads[version]]:
            del memory[version]
        for op in ops:
            run(op, memory)
            n_reads.subtract(op.reads())
            for version in op.touches() if kept is None else ():
                if not n_reads[version]:
                    memory.pop(version, None)
        return [place(read, memory, keeps=True) for read in reads]


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    return evaluate([read_of(tensor)])[0]


def needed(wanted: Iterable[Version], memory: Memory) -> list[Op]:
    """The operations that lead from memory to the versions, in their order."""
    ops: set[Op] = set()
    todo = list(wanted)
    while todo:
        version = todo.pop()
        if version.op is not None and version not in memory and version.op not in ops:
            ops.add(version.op)
            todo += version.op.reads()
    return sorted(ops, key=lambda op: op.number)


def run(op: Op, memory: Memory) -> None:
    leaves = [
        place(leaf, memory, keeps=number in op.written) if isinstance(leaf, Read) else leaf
        for number, leaf in enumerate(op.leaves)
    ]
    with default_dtype(op.default_dtype), state_of(op.generator):
        results = op.call(leaves)
    for number, version in op.written.items():
        memory.pop(op.leaves[number].version, None)
        memory[version] = leaves[number].untyped_storage()
    keep_results(op, results, leaves, memory)


def place(read: Read, memory: Memory, keeps: bool) -> torch.Tensor:
    """keeps: the tensor is written, or given away, so bytes that are held for others are copied."""
    if read.version is None:
        return read.layout.over(torch.UntypedStorage(read.layout.n_bytes, device=read.device))
    held = read.version.bytes
    if held is None:
        return read.layout.over(memory[read.version])
    return read.layout.over(held.clone() if keeps else held)


def keep_results(op: Op, results: Any, leaves: list[Any], memory: Memory) -> None:
    tensors = [result for result in tree_leaves(results) if isinstance(result, torch.Tensor)]
    taken = {leaf.untyped_storage()._cdata for leaf in leaves if isinstance(leaf, torch.Tensor)}
    for number, (version, layout) in op.made.items():
        result = tensors[number]
        if layout.is_of(result) and result.untyped_storage()._cdata not in taken:
            memory[version] = result.untyped_storage()
        else:
            memory[version] = torch.UntypedStorage(layout.n_bytes, device=result.device)
            layout.over(memory[version]).copy_(result)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def state_of(generator: tuple[torch.Generator, torch.Tensor] | None) -> Iterator[None]:
    """Random numbers from the state on; afterwards the generator goes on as if there had been none."""
    if generator is None:
        yield
        return
    source, state = generator
    before = source.get_state()
    source.set_state(state)
    try:
        yield
    finally:
        source.set_state(before)
