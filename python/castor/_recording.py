# SPDX-License-Identifier: Apache-2.0
"""Records the operations on tensors that are built without memory, on the meta device."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from castor._errors import Error
from castor._versions import Layout, Memory, Op, Read, Version, evaluate, read_of, version_of

META = torch.device("meta")
# Operations that read nothing of the tensor that they write.
OVERWRITING = {
    *("zero_", "fill_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "cauchy_"),
    "geometric_",
}
NUMBERS = itertools.count()


class Recorder(TorchDispatchMode):
    """New tensors are on the meta device and get a Version, as what is computed from them. device: of tensors that are asked
    for on the meta device."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device = device
        self.kept: Memory = {}  # of the values that were asked for last

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            return Call(func, args, kwargs or {}, self).result()


class Call:
    """One call of an operator."""

    def __init__(self, func: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any], recorder: Recorder):
        self.func = func
        self.kept = recorder.kept
        self.args, self.kwargs = args, kwargs
        self.leaves, self.spec = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        self.recorded = [leaf for leaf in tensors if version_of(leaf)]
        takes_device = any(argument.name == "device" for argument in func._schema.arguments)
        asked = kwargs.get("device")
        self.creates = takes_device and not tensors
        self.is_plain = not self.recorded and not self.creates and asked != META
        if asked is None or asked == META:
            self.device = version_of(self.recorded[0]).device if self.recorded else recorder.device
        else:
            self.device = asked
        if self.creates:
            self.kwargs = {**kwargs, "device": self.device}
            self.leaves, self.spec = tree_flatten((args, self.kwargs))

    def result(self) -> Any:
        if self.is_plain:
            return self.func(*self.args, **self.kwargs)
        written = self.written()
        if any(not leaf.is_meta for leaf in written.values()):
            return self.at_once(written)
        if torch.Tag.inplace_view in self.func.tags and "resize" not in str(self.func):
            return self.func(*self.args, **self.kwargs)
        op = self.op(written)
        try:
            result = self.on_meta()
        except RuntimeError:  # the values are asked for, or the operator is unknown there: as an eager call goes on
            return self.at_once(written)
        if any(leaf.layout != torch.strided for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)):
            return self.at_once(written)
        self.keep(op, written, result)
        return result

    def written(self) -> dict[int, torch.Tensor]:
        """The tensors that the operator writes, by their place among the leaves."""
        targets: set[int] = set()
        for argument, value in self.arguments():
            if argument.alias_info is not None and argument.alias_info.is_write:
                targets.update(id(leaf) for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
        return {number: leaf for number, leaf in enumerate(self.leaves) if id(leaf) in targets}

    def arguments(self):
        for number, argument in enumerate(self.func._schema.arguments):
            if number < len(self.args):
                yield argument, self.args[number]
            elif argument.name in self.kwargs:
                yield argument, self.kwargs[argument.name]

    def overwrites(self) -> bool:
        name = self.func._schema.name.removeprefix("aten::")
        return name in OVERWRITING or any(argument.is_out for argument in self.func._schema.arguments)

    def op(self, written: dict[int, torch.Tensor]) -> Op:
        leaves = [self.leaf_to_keep(number, leaf, written) for number, leaf in enumerate(self.leaves)]
        return Op(next(NUMBERS), self.func, leaves, self.spec)

    def leaf_to_keep(self, number: int, leaf: object, written: dict[int, torch.Tensor]) -> object:
        if leaf == META and isinstance(leaf, torch.device):
            return self.device
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if not leaf.is_meta:
            return leaf.detach().clone()
        if version_of(leaf) is None:
            raise Error(
                "a tensor of the meta device that was made outside of castor.lazy.LazyInitContext() is used with one that was "
                "made in it, and has no values",
                "usage",
            )
        read = read_of(leaf)
        if number in written and self.overwrites() and read.layout.fills_storage():
            return Read(None, read.layout, read.device)
        return read

    def on_meta(self) -> Any:
        leaves = [leaf_on_meta(leaf) for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.spec)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return self.func(*args, **kwargs)

    def keep(self, op: Op, written: dict[int, torch.Tensor], result: Any) -> None:
        """Draws the random numbers of the operator, which others follow, and forgets them."""
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for number, leaf in enumerate(results):
            if version_of(leaf) is None:
                version = Version(self.device, op=op)
                op.made[number] = version, Layout.of(leaf)
                leaf.untyped_storage().castor_version = version
        if torch.Tag.nondeterministic_seeded in self.func.tags:
            generator = next((leaf for leaf in self.leaves if isinstance(leaf, torch.Generator)), None)
            generator = generator or default_generator(self.device)
            op.generator = generator, generator.get_state()
            op.call(self.real_leaves(op, written))
        for number, leaf in written.items():
            version = Version(version_of(leaf).device, op=op)
            op.written[number] = version
            leaf.untyped_storage().castor_version = version

    def real_leaves(self, op: Op, written: dict[int, torch.Tensor]) -> list[Any]:
        reads = {number: leaf for number, leaf in enumerate(op.leaves) if isinstance(leaf, Read)}
        if self.overwrites():
            for number in written:
                reads[number] = Read(None, reads[number].layout, reads[number].device)
        leaves = list(op.leaves)
        for number, values in zip(reads, evaluate(list(reads.values()))):
            leaves[number] = values
        return leaves

    def at_once(self, written: dict[int, torch.Tensor]) -> Any:
        """Runs the operator on values; what it writes is kept."""
        leaves = [self.device if isinstance(leaf, torch.device) else leaf for leaf in self.leaves]
        places = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and version_of(leaf)]
        for number, values in zip(places, evaluate([read_of(leaves[number]) for number in places], self.kept)):
            leaves[number] = values
        args, kwargs = tree_unflatten(leaves, self.spec)
        result = self.func(*args, **kwargs)
        if written or any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result)):
            self.kept.clear()  # the program may write there
        returned = {id(leaves[number]): leaf for number, leaf in written.items()}
        for number, leaf in written.items():
            if leaf.is_meta:
                storage = leaves[number].untyped_storage()
                leaf.untyped_storage().castor_version = Version(storage.device, storage)
        flat, spec = tree_flatten(result)
        return tree_unflatten([returned.get(id(leaf), leaf) for leaf in flat], spec)


def leaf_on_meta(leaf: object) -> object:
    if isinstance(leaf, torch.Tensor) and not leaf.is_meta:
        return torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=META)
    if isinstance(leaf, torch.device):
        return META
    return None if isinstance(leaf, torch.Generator) else leaf


def default_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
    return torch.default_generator
