# SPDX-License-Identifier: Apache-2.0
"""Tensors of the host on a drive, moved past the page cache while the program computes; names as those of TensorNVMe."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import os
import threading
import warnings
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from castor import _core
from castor._errors import Error, nearest
from castor._forks import STORES
from castor._guards import span_of, storage_of
from castor._values import check_value

__all__ = ["AsyncFileWriter", "DiskOffloader", "Saving", "async_save"]

LAST_SAVED: WeakValueDictionary[str, Future] = WeakValueDictionary()  # by path
ENGINES = {"uring": "uring", "pthread": "threads", "best": "best"}

Key = tuple[Any, ...]
Callback = Callable[[], object]


@dataclass
class Stored:
    """Room on the drive for the values of a tensor, which any tensor of the same elements may ask for. It stays for the next
    write, until the storage is gone."""

    number: int
    storage: StorageWeakRef
    storage_bytes: int = 0  # the storage's, before it was emptied
    is_away: bool = False  # written, and not read since


@dataclass
class Moves:
    """The transfers of one call."""

    number: int
    tensors: list[torch.Tensor]
    transfers: list[_core.Transfer] = field(default_factory=list)
    after: list[Callback] = field(default_factory=list)  # of each tensor, and of the call


class Spans:
    """Bytes of storages: of each, spans in ascending order that do not meet."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[list[int], list[int]]] = {}  # begins and ends, by storage

    def add(self, tensor: torch.Tensor) -> None:
        if tensor.numel():
            begins, ends = self._of.setdefault(storage_of(tensor), ([], []))
            (begin, end), met = span_of(tensor), self._met_by(tensor)
            begins[met], ends[met] = [min([begin, *begins[met]])], [max([end, *ends[met]])]

    def meet(self, tensor: torch.Tensor) -> bool:
        met = self._met_by(tensor)
        return met.start < met.stop

    def _met_by(self, tensor: torch.Tensor) -> slice:
        """Of the spans of its storage: those with a byte between its first and its last."""
        if not tensor.numel() or storage_of(tensor) not in self._of:
            return slice(0, 0)
        begins, ends = self._of[storage_of(tensor)]
        begin, end = span_of(tensor)
        return slice(bisect_right(ends, begin), bisect_left(begins, end))


class Queue:
    """Calls of one direction that have not ended."""

    def __init__(self) -> None:
        self.calls: deque[Moves] = deque()
        self.spans = Spans()  # of their tensors
        self._n_begun = 0

    def begin(self, tensors: Sequence[torch.Tensor]) -> Moves:
        self._n_begun += 1
        self.calls.append(Moves(self._n_begun, list(tensors)))
        for tensor in tensors:
            self.spans.add(tensor)
        return self.calls[-1]

    def end_of(self, tensors: Sequence[torch.Tensor]) -> None:
        """Waits where an earlier call has bytes of one of these tensors."""
        if any(map(self.spans.meet, tensors)):
            self.end()

    def end(self) -> None:
        """Waits for each call so far, and does what follows it, also where another or its callback has failed; raises the
        first failure. A callback that waits for later calls ends them itself."""
        failures: list[BaseException] = []
        last = self._n_begun
        while self.calls and self.calls[0].number <= last:
            call = self.calls.popleft()
            ended = [attempt(transfer.wait, failures) for transfer in call.transfers]
            if all(ended):
                for done in call.after:
                    attempt(done, failures)
        if not self.calls:
            self.spans = Spans()
        if failures:
            raise failures[0]


def attempt(call: Callback, failures: list[BaseException]) -> bool:
    try:
        call()
    except BaseException as error:
        failures.append(error.of_argument("nvme", "dir") if isinstance(error, Error) else error)
        return False
    return True


@contextlib.contextmanager
def naming(argument: str) -> Iterator[None]:
    """Errors of the core within it tell the argument that names the folder or file."""
    try:
        yield
    except Error as error:
        raise error.of_argument("nvme", argument) from None


def one_at_a_time(method: Callable) -> Callable:
    """Calls of other threads wait; those of callbacks, which are the same thread's, do not."""

    @functools.wraps(method)
    def locked(self, *args, **kwargs):
        with self._lock:
            return method(self, *args, **kwargs)

    return locked


class DiskOffloader:
    """Writes tensors of the host to an unnamed file in the folder `dir`, and reads them back.

    A tensor may have any dtype, sizes and strides, and be a view; any tensor of the same elements reads them. Once it is on the
    drive its memory is freed if it is all of its storage, torch's own, and not shared; reading it makes the memory again. Its
    room on the drive is kept while it lives, and that of tensors that are gone until they take as much as those that live, or
    64 MiB. Between a call and the end of its transfer the values may not be used. Calls that begin with async_ return at once;
    sync_write_events, sync_read_events and synchronize wait, free memory and run the callbacks, in the order of the calls. A
    failure is a castor.Error (kind 'io', 'usage' or 'does_not_fit') there; what could not be written keeps its memory. Using a
    tensor whose memory is on the drive is an error of torch.

    n_entries: requests that the drive has at a time. backend: 'uring', 'pthread', or 'best': io_uring if there is one.
    Threads: any; a call waits for those of others.
    """

    def __init__(self, dir: str | os.PathLike, n_entries: int = 16, backend: str = "uring"):
        self._lock = threading.RLock()
        folder, engine = Path(dir), engine_of(backend)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"{folder}: {error.strerror}; name a folder that can be written", "io", "dir") from None
        with naming("dir"):
            self._store = _core.DriveStore(os.fspath(folder), engine, checked_entries(n_entries))
        for sentence in self._store.warnings():
            warnings.warn(sentence, stacklevel=2)
        self._stored: dict[Key, Stored] = {}
        self._n_stored = 0
        self._emptied_by: dict[int, Key] = {}  # by storage
        self._writes, self._reads = Queue(), Queue()
        self._n_before_sweep = 64
        self._unswept_bytes, self._bytes_before_sweep = 0, 64 << 20
        STORES.add(self._store)

    def async_write(self, tensor: torch.Tensor, callback: Callback | None = None) -> None:
        self.async_writev([tensor], callback)

    def async_read(self, tensor: torch.Tensor, callback: Callback | None = None) -> None:
        self.async_readv([tensor], callback)

    def sync_write(self, tensor: torch.Tensor, callback: Callback | None = None) -> None:
        self.sync_writev([tensor], callback)

    def sync_read(self, tensor: torch.Tensor, callback: Callback | None = None) -> None:
        self.sync_readv([tensor], callback)

    @one_at_a_time
    def async_writev(self, tensors: Iterable[torch.Tensor], callback: Callback | None = None) -> None:
        """callback: called once all are on the drive."""
        tensors = self._checked(tensors, callback)
        for tensor in tensors:
            if tensor.untyped_storage().nbytes() == 0 and tensor.numel():
                raise Error("the tensor has no memory; it may be on the drive already: read it first", "usage")
        self._forget_ended()
        self._reads.end_of(tensors)
        self._writes.end_of(tensors)
        moves = self._writes.begin(tensors)
        for tensor in tensors:
            self._write(tensor, moves)
        moves.after.extend([callback] if callback else [])

    @one_at_a_time
    def async_readv(self, tensors: Iterable[torch.Tensor], callback: Callback | None = None) -> None:
        """callback: called once all are in memory. What several of the tensors have in common is read in any order."""
        tensors = self._checked(tensors, callback)
        self._writes.end_of(tensors)
        self._reads.end_of(tensors)
        keys = [key_of(tensor) for tensor in tensors]
        for key, tensor in zip(keys, tensors):
            stored = self._stored.get(key)
            if tensor.untyped_storage().nbytes() == 0 and self._emptied_by.get(key[0], key) != key:
                raise Error("all of the tensor's storage is on the drive; read the tensor that was written as a whole first", "usage")
            if stored is None or not stored.is_away:
                sizes = tuple(tensor.shape)
                raise Error(f"a tensor of sizes {sizes} is not on the drive; it was never written, or read since", "usage")
        moves = self._reads.begin(tensors)
        for key, tensor in zip(keys, tensors):
            self._read(key, tensor, moves)
        moves.after.extend([callback] if callback else [])

    @one_at_a_time
    def sync_writev(self, tensors: Iterable[torch.Tensor], callback: Callback | None = None) -> None:
        self.async_writev(tensors, callback)
        self.sync_write_events()

    @one_at_a_time
    def sync_readv(self, tensors: Iterable[torch.Tensor], callback: Callback | None = None) -> None:
        self.async_readv(tensors, callback)
        self.sync_read_events()

    @one_at_a_time
    def sync_write_events(self) -> None:
        """Waits for all writes."""
        self._writes.end()

    @one_at_a_time
    def sync_read_events(self) -> None:
        """Waits for all reads."""
        self._reads.end()

    def synchronize(self) -> None:
        """Waits for all."""
        self.sync_write_events()
        self.sync_read_events()

    def _checked(self, tensors: Iterable[torch.Tensor], callback: Callback | None) -> list[torch.Tensor]:
        if isinstance(tensors, torch.Tensor):
            raise Error("calls that end with v take a list of tensors; those without it take one", "usage")
        if callback is not None and not callable(callback):
            raise Error(f"callback is called without arguments, which {callback!r} cannot be", "usage", "callback")
        listed = list(tensors)
        for tensor in listed:
            self._check(tensor)
        return listed

    def _check(self, tensor: torch.Tensor) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and overlaps(tensor):
            raise Error("elements of the tensor share memory; take a copy, tensor.clone()", "usage")
        if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
            what = f"one on {tensor.device}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise Error(f"the drive takes dense tensors of the host, not {what}; tensor.cpu() copies one there", "usage")

    def _write(self, tensor: torch.Tensor, moves: Moves) -> None:
        key, storage, tensor = key_of(tensor), tensor.untyped_storage(), once(tensor)
        stored = self._stored.get(key)
        if stored is None:
            self._n_stored += 1
            stored = self._stored[key] = Stored(self._n_stored, StorageWeakRef(storage))
            self._unswept_bytes += tensor.nbytes
        stored.storage_bytes, stored.is_away = storage.nbytes(), True
        if tensor.numel():
            dense = is_dense(tensor)
            moves.transfers.append(self._store.put(stored.number, region(tensor) if dense else bytes_of(tensor)))
            if dense and tensor.nbytes == storage.nbytes() and storage.resizable() and not storage.is_shared():
                moves.after.append(lambda: self._empty(tensor, key))

    def _read(self, key: Key, tensor: torch.Tensor, moves: Moves) -> None:
        stored = self._stored[key]
        stored.is_away = False
        if tensor.untyped_storage().nbytes() == 0 and stored.storage_bytes:
            self._store.give_memory(tensor, stored.storage_bytes)
            self._emptied_by.pop(key[0], None)
        tensor = once(tensor)
        if tensor.numel() and is_dense(tensor):
            moves.transfers.append(self._store.get(stored.number, region(tensor)))
        elif tensor.numel():
            values = torch.empty(tensor.shape, dtype=tensor.dtype)
            moves.transfers.append(self._store.get(stored.number, bytes_of(values)))
            moves.after.append(lambda: tensor.detach().copy_(values))

    def _empty(self, tensor: torch.Tensor, key: Key) -> None:
        _core.take_memory(tensor, "its memory is on the drive; read it by the DiskOffloader that has written it")
        self._emptied_by[key[0]] = key

    def _forget_ended(self) -> None:
        """The values of tensors that are gone. Looked for as often as the tensors' number or bytes have doubled."""
        if len(self._stored) < self._n_before_sweep and self._unswept_bytes < self._bytes_before_sweep:
            return
        under_way = {key_of(tensor) for moves in (*self._writes.calls, *self._reads.calls) for tensor in moves.tensors}
        for key in [key for key, stored in self._stored.items() if stored.storage.expired() and key not in under_way]:
            self._store.remove(self._stored.pop(key).number)
            self._emptied_by.pop(key[0], None)
        self._n_before_sweep = max(64, 2 * len(self._stored))
        self._unswept_bytes = 0
        self._bytes_before_sweep = max(64 << 20, sum(stored.storage_bytes for stored in self._stored.values()))


class AsyncFileWriter:
    """A file object to write, for torch.save and others: the bytes are copied, and go to the drive while the program goes
    on. At most n_entries blocks of 4 MiB wait; further calls wait for the drive. close() returns when all is on the
    drive; until then the file of that name stays as it was. Within `with`, an exception drops the new one.

    backend: as DiskOffloader's. Errors: castor.Error. Threads: any; a call waits for those of others.
    """

    def __init__(self, path: str | os.PathLike, n_entries: int = 16, backend: str = "uring"):
        self._lock = threading.RLock()
        with naming("path"):
            self._writer = _core.FileWriter(os.path.abspath(path), engine_of(backend), checked_entries(n_entries))

    @one_at_a_time
    def write(self, data: Any) -> int:
        """bytes or another contiguous buffer; returns their number."""
        with naming("path"):
            view = memoryview(data)
            return self._writer.write(view.cast("B")) if view.nbytes else 0

    @one_at_a_time
    def tell(self) -> int:
        return self._writer.tell()

    def flush(self) -> None:
        """Nothing waits that will not be written by close()."""

    def sync_before_step(self) -> None:
        """Nothing has to end before values change: they were copied."""

    @one_at_a_time
    def synchronize(self) -> None:
        """Waits until what was written so far is with the drive, but for the last part of a block."""
        with naming("path"):
            self._writer.synchronize()

    @one_at_a_time
    def close(self) -> None:
        with naming("path"):
            self._writer.close()

    def __enter__(self) -> AsyncFileWriter:
        return self

    @one_at_a_time
    def __exit__(self, kind: type | None, *_: object) -> None:
        self.close() if kind is None else self._writer.drop()


class Saving:
    """What async_save has begun."""

    def __init__(self, saved: Future):
        self._saved = saved
        saved.add_done_callback(report)

    def sync_before_step(self) -> None:
        """Nothing has to end before values change: they were copied."""

    def done(self) -> bool:
        return self._saved.done()

    def synchronize(self) -> None:
        """Returns when the file is whole, and raises what went wrong."""
        self._saved.result()


def report(saved: Future) -> None:
    """Also where nobody waits for it."""
    if error := saved.exception():
        logging.getLogger("castor").error("a file was not saved: %s", error)


def async_save(obj: object, path: str | os.PathLike, n_entries: int = 16, backend: str = "uring") -> Saving:
    """torch.save(obj, path), of which the writing goes on beside the program: the file's bytes are made at once, in memory, so
    that all of `obj` may change afterwards. Until the new file is whole, the one of that name stays as it was. Savings of one
    path end in the order of their calls."""
    copied = io.BytesIO()
    torch.save(obj, copied)
    writer = AsyncFileWriter(path, n_entries, backend)
    name = os.path.realpath(path)
    earlier = LAST_SAVED.get(name)

    def save() -> None:
        if earlier:
            earlier.exception()
        with writer:
            writer.write(copied.getbuffer())

    thread = ThreadPoolExecutor(1, "castor-save")
    saved = LAST_SAVED[name] = thread.submit(save)
    thread.shutdown(wait=False)  # the thread ends with its work, and the program waits for it
    return Saving(saved)


def engine_of(backend: str) -> str:
    if not isinstance(backend, str) or backend not in ENGINES:
        raise Error(f"backend takes one of {', '.join(ENGINES)}, not {backend!r}{nearest(backend, ENGINES)}", "usage", "backend")
    return ENGINES[backend]


def checked_entries(n_entries: int) -> int:
    check_value("n_entries", n_entries, "a whole number from 1 to 1024", type(n_entries) is int and 1 <= n_entries <= 1024)
    return n_entries


def key_of(tensor: torch.Tensor) -> Key:
    """Of its elements: those of a region of its storage, in whatever order, or of sizes with gaps."""
    if tensor.numel() and is_dense(tensor):
        return storage_of(tensor), *span_of(tensor)
    return storage_of(tensor), tensor.storage_offset(), sizes_once(tensor), tensor.stride(), tensor.dtype


def sizes_once(tensor: torch.Tensor) -> tuple[int, ...]:
    """Without the repeats of an expanded tensor."""
    return tuple(size if stride else 1 for size, stride in zip(tensor.shape, tensor.stride()))


def once(tensor: torch.Tensor) -> torch.Tensor:
    """As it lies in memory: without the repeats of an expanded tensor, not conjugated, and not negated."""
    if tensor.is_conj():
        tensor = tensor.conj()
    if tensor.is_neg():
        tensor = torch._neg_view(tensor)
    if tensor.is_contiguous():
        return tensor
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements may share memory otherwise, as those of an unfolded one do."""
    if tensor.is_contiguous():
        return False
    extent = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if stride and size > 1:
            if stride < extent:
                return True
            extent += (size - 1) * stride
    return False


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements, in some order, are a region of its storage. Requires: it has some, and none overlap."""
    begin, end = span_of(tensor)
    return end - begin == math.prod(sizes_once(tensor)) * tensor.itemsize


def region(tensor: torch.Tensor) -> torch.Tensor:
    begin, end = span_of(tensor)
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage(), begin, (end - begin,), (1,))


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Of a copy in memory of its own, where it has gaps."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)
