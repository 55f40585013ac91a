# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from castor._errors import Error, nearest


def now() -> float:
    """Seconds, when the GPU has done what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


class Timer:
    """Seconds between start and stop."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._history: list[float] = []
        self._started_at: float | None = None
        self._elapsed = 0.0

    @property
    def has_history(self) -> bool:
        return bool(self._history)

    def start(self) -> None:
        self._started_at = now()

    def stop(self, keep_in_history: bool = False) -> float:
        if self._started_at is None:
            raise Error("the timer is stopped before it was started", "usage")
        self._elapsed = now() - self._started_at
        self._started_at = None
        if keep_in_history:
            self._history.append(self._elapsed)
        return self._elapsed

    def get_elapsed_time(self) -> float:
        """Of the last interval."""
        if self._started_at is not None:
            raise Error("the timer runs; stop it first", "usage")
        return self._elapsed

    def get_history_sum(self) -> float:
        return sum(self._history)

    def get_history_mean(self) -> float:
        return sum(self._history) / len(self._history) if self._history else 0.0


class MultiTimer:
    """Timers by name. on: whether they measure; otherwise every call does nothing."""

    def __init__(self, on: bool = True):
        self._on = on
        self._timers: dict[str, Timer] = {}

    def start(self, name: str) -> None:
        if self._on:
            self._timers.setdefault(name, Timer()).start()

    def stop(self, name: str, keep_in_history: bool = False) -> float | None:
        return self.get_timer(name).stop(keep_in_history) if self._on else None

    def get_timer(self, name: str) -> Timer:
        if name not in self._timers:
            raise Error(f"no timer {name!r} was started{nearest(name, self._timers)}", "usage")
        return self._timers[name]

    def reset(self, name: str | None = None) -> None:
        """Of all timers where no name is given."""
        for timer in self._timers.values() if name is None else [self.get_timer(name)]:
            timer.reset()

    def is_on(self) -> bool:
        return self._on

    def set_status(self, mode: bool) -> None:
        self._on = mode

    def __iter__(self) -> Iterator[tuple[str, Timer]]:
        return iter(self._timers.items())
