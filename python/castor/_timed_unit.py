# SPDX-License-Identifier: Apache-2.0
"""How fast this machine is at one unit of a model, and at what moves and updates the others."""

from __future__ import annotations

import copy
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.checkpoint import checkpoint

from castor import _core
from castor._errors import Error
from castor._hooks import in_backward
from castor._units import Unit

WAY_OUT = "leave out timed, and state machine= where rates differ"
MOST_S = 1.0  # of a unit's passes, alone and beside updates in turns
UNITS_IN_A_ROW = 4
MOST_UPDATES_S = 0.5  # alone
MOST_COPIES_S = 0.1
UPDATED = 2**26  # elements, more than caches hold
ADAMW = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
BYTES_OF_UPDATE = 28  # of an element: fp32 weight and both moments read and written, the gradient read


@dataclass
class Sizes:
    """What is kept of an argument: the tensor itself would count among the model's activations."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Sizes:
        return cls(tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)

    def on(self, device: torch.device) -> torch.Tensor:
        """Random numbers; all of a mask is set."""
        made = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)
        if 0 in self.stride:  # elements that share memory
            made = made.contiguous()
        if made.is_floating_point():
            made.normal_()
        else:
            made.fill_(self.dtype == torch.bool)
        return made.requires_grad_(self.requires_grad)


@dataclass
class Seen:
    """A unit without the model's hooks, and its calls in the model."""

    number: int
    name: str
    unit: nn.Module
    arguments: tuple[tuple, dict[str, Any]] | None = None  # of the first call
    n_calls: int = 0  # in forward
    is_recomputed: bool = False  # called in backward too

    def note(self, module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if in_backward():
            self.is_recomputed = True
            return
        self.n_calls += 1
        if self.arguments is None:
            self.arguments = tree_map_only(torch.Tensor, Sizes.of, (args, {name: without_cache(value) for name, value in kwargs.items()}))


class TimedUnits:
    """One of each kind of units that a model has several of. The kind that computes most is given memory on a device and run
    there, with arguments of the shapes that it has in the model.

    Made before the model's hooks, and before the model is called. Errors: usage, where no unit repeats.
    """

    def __init__(self, units: Sequence[Unit]):
        groups: dict[Any, list[int]] = defaultdict(list)
        for number, unit in enumerate(units):
            groups[type(unit.module), tuple(parameter.shape for parameter in unit.parameters)].append(number)
        self.seen = []
        self.handles = []
        for group in groups.values():
            module = units[group[-1]].module
            if len(group) > 1 and module is not None:
                seen = Seen(group[-1], units[group[-1]].name, copy.deepcopy(module))
                self.seen.append((seen, len(group)))
                self.handles.append(module.register_forward_pre_hook(seen.note, with_kwargs=True))
        if not self.seen:
            raise Error(f"no two units of the model are alike, so there is none to time; {WAY_OUT}", "usage", "timed")

    def measure(self, flops_of_units: Sequence[float], device: torch.device, updates: Updates) -> tuple[str, dict[str, float]]:
        """The unit, and the operations per second that it reaches; on a GPU also how many times as long it takes beside
        updates."""
        for handle in self.handles:
            handle.remove()
        called = [(flops_of_units[seen.number] * n, seen) for seen, n in self.seen if seen.n_calls and flops_of_units[seen.number]]
        if not called:
            raise Error(f"none of the units that the model repeats multiplies matrices, so there is none to time; {WAY_OUT}", "usage", "timed")
        seen = max(called, key=lambda each: each[0])[1]
        self.seen.clear()
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            run = passes_of(seen, device)
            flops = flops_of_units[seen.number] / seen.n_calls
            if device.type == "cpu":
                return seen.name, {"flops_per_s": flops / median_s(run, device, MOST_S)}
            alone_s, slowdown = in_turns(run, device, updates)
            return seen.name, {"flops_per_s": flops / alone_s, "compute_slowdown": slowdown}


def without_cache(value: Any) -> Any:
    """None for one of keys and values, which transformers hands on in training too; it grows with each call."""
    return None if hasattr(value, "get_seq_length") else value


def passes_of(seen: Seen, device: torch.device) -> Callable[[], None]:
    """One forward and backward pass, with the one that recomputes where the model has it."""
    assert seen.arguments is not None  # it was called
    unit = seen.unit.to_empty(device=device)
    for tensor in (*unit.parameters(), *unit.buffers()):
        fill(tensor.detach())
    args, kwargs = tree_map_only(Sizes, lambda sizes: sizes.on(device), seen.arguments)
    learning = [tensor for tensor in (*unit.parameters(), *tree_leaves((args, kwargs))) if getattr(tensor, "requires_grad", False)]
    again: list[None] = []  # a call in backward: the unit recomputes itself
    handle = unit.register_forward_pre_hook(lambda *_: again.append(None) if in_backward() else None)
    run_once(unit, args, kwargs, learning)
    handle.remove()
    call = recomputed(unit) if seen.is_recomputed and not again else unit
    return lambda: run_once(call, args, kwargs, learning)


def in_turns(run: Callable[[], None], device: torch.device, updates: Updates) -> tuple[float, float]:
    """The time of a run alone, and how many times as long it takes beside updates. In a model the thread runs ahead of a GPU: it
    queues one unit while another computes. Before each row of units the GPU rests for half of its time, as it does in trainings
    that wait for the host; one that never rests grows slower.
    """

    def row_s(rest_s: float) -> float:
        wait(device)
        time.sleep(rest_s)
        start = time.perf_counter()
        for _ in range(UNITS_IN_A_ROW):
            run()
        wait(device)
        return time.perf_counter() - start

    row_s(0)
    rest_s = row_s(0) / 2
    alone: list[float] = []
    slower: list[float] = []
    begin = time.perf_counter()
    while len(alone) < 2 or time.perf_counter() - begin < MOST_S:
        alone.append(row_s(rest_s))
        with repeated(updates.step):
            slower.append(row_s(rest_s) / alone[-1])
    return statistics.median(alone) / UNITS_IN_A_ROW, max(1.0, statistics.median(slower))


def fill(tensor: torch.Tensor) -> None:
    if not tensor.is_floating_point():
        tensor.zero_()
    elif tensor.dim() > 1:
        tensor.normal_(0, 0.02)
    else:
        tensor.fill_(1)


def recomputed(unit: nn.Module) -> Callable:
    return lambda *args, **kwargs: checkpoint(unit, *args, use_reentrant=False, **kwargs)


def run_once(unit: Callable, args: tuple, kwargs: dict[str, Any], learning: Sequence[torch.Tensor]) -> None:
    results = [leaf for leaf in tree_leaves(unit(*args, **kwargs)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    torch.autograd.backward(results, [torch.ones_like(result) for result in results])
    for tensor in learning:
        tensor.grad = None


def median_s(run: Callable[[], Any], device: torch.device, most_s: float) -> float:
    """Each run is waited for, after one that is not counted."""
    run()
    found: list[float] = []
    begin = time.perf_counter()
    while len(found) < 2 or time.perf_counter() - begin < most_s:
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


@contextmanager
def given_back(device: torch.device) -> Iterator[None]:
    """The memory of what is timed within it: a training in this process begins with all of it."""
    try:
        yield
    finally:
        if device.type == "cuda":
            torch._C._cuda_clearCublasWorkspaces()
            torch.cuda.empty_cache()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Updates:
    """Of a parameter on the host, by threads of their own, which leave the first CPUs to others. `seconds`: of each."""

    def __init__(self, n_threads: int, n_spared_cpus: int):
        self.states = _core.TensorOptimizer([(torch.float32, UPDATED)], True, [], 0.0, n_threads, n_spared_cpus)
        self.update = 0, torch.zeros(UPDATED), torch.zeros(UPDATED), "adamw", ADAMW, True
        self.seconds: list[float] = []

    def step(self) -> None:
        start = time.perf_counter()
        self.states.step([self.update], 1.0)
        self.seconds.append(time.perf_counter() - start)

    def bytes_per_s(self) -> float:
        """On average of all updates but the first, which finds its memory new: other programs on the host slow some of them."""
        return BYTES_OF_UPDATE * UPDATED / statistics.mean(self.seconds[1:])


@contextmanager
def repeated(run: Callable[[], Any]) -> Iterator[None]:
    """On another thread, again and again; what it raises, this raises at its end."""
    ended = threading.Event()

    def run_on() -> None:
        while not ended.is_set():
            run()

    with ThreadPoolExecutor(1, thread_name_prefix="beside") as thread:
        try:
            running = thread.submit(run_on)
            yield
        finally:
            ended.set()
        running.result()


def rates_of(device: torch.device, updates: Updates) -> dict[str, float]:
    """As castor.estimate's machine takes them: of copies to and from the device, and of updates on the host, those beside a unit
    included, and on the device, which are as fast as its memory."""
    median_s(updates.step, torch.device("cpu"), MOST_UPDATES_S)
    of_host = updates.bytes_per_s()
    if device.type == "cpu":
        return {"host_update_bytes_per_s": of_host, "device_update_bytes_per_s": of_host, **_core.link_rates(None)}
    source = torch.zeros(UPDATED, device=device)
    target = torch.zeros_like(source)
    of_device = 2 * source.nbytes / median_s(lambda: target.copy_(source), device, MOST_COPIES_S)
    number = torch.cuda.current_device() if device.index is None else device.index
    return {"host_update_bytes_per_s": of_host, "device_update_bytes_per_s": of_device, **_core.link_rates(number)}
