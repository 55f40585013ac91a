#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What copies to and from a GPU and updates on the host cost one another, because they share the host's memory.

    python3 bench/host_memory.py     # 10 s; needs a GPU

By direction GB/s (10^9 bytes) of copies of pinned memory, alone and beside updates by as many threads as a training has, and
of these updates, alone and beside the copies. Both ways: of the slower one. Medians of --turns.
"""

import argparse
import functools
import statistics

import torch

from castor import _core
from castor._timed_unit import BYTES_OF_UPDATE, UPDATED, Updates, median_s, repeated

N_BYTES = 64 << 20
MOST_S = 0.5  # of each figure in a turn
CPU, GPU = torch.device("cpu"), torch.device("cuda")
WAYS = {"up": (True, False), "down": (False, True), "both": (True, True)}


class Copies:
    def __init__(self) -> None:
        self.on_host = [torch.zeros(N_BYTES, dtype=torch.uint8).pin_memory() for _ in range(2)]
        self.on_gpu = [torch.zeros(N_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
        self.streams = [torch.cuda.Stream() for _ in range(2)]

    def run(self, up: bool, down: bool) -> None:
        """Four each way, to their end."""
        for _ in range(4):
            with torch.cuda.stream(self.streams[0]):
                if up:
                    self.on_gpu[0].copy_(self.on_host[0], non_blocking=True)
            with torch.cuda.stream(self.streams[1]):
                if down:
                    self.on_host[1].copy_(self.on_gpu[1], non_blocking=True)
        torch.cuda.synchronize()


def turn(copies: Copies, updates: Updates) -> dict[str, tuple[float, ...]]:
    found = {}
    copied_gb, updated_gb = 4 * N_BYTES / 1e9, BYTES_OF_UPDATE * UPDATED / 1e9
    for name, way in WAYS.items():
        copy = functools.partial(copies.run, *way)
        update_s, copy_s = median_s(updates.step, CPU, MOST_S), median_s(copy, GPU, MOST_S)
        n_before = len(updates.seconds)
        with repeated(updates.step):
            copy_beside_s = median_s(copy, GPU, MOST_S)
        update_beside_s = statistics.median(updates.seconds[n_before:])
        found[name] = updated_gb / update_s, updated_gb / update_beside_s, copied_gb / copy_s, copied_gb / copy_beside_s
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    n_threads, n_spared = _core.team_size(0, True)
    copies, updates = Copies(), Updates(n_threads, n_spared)
    turns = [turn(copies, updates) for _ in range(arguments.turns)]
    print(f"{torch.cuda.get_device_name()}, {n_threads} threads")
    for name in WAYS:
        host, host_beside, link, link_beside = (statistics.median(column) for column in zip(*(each[name] for each in turns), strict=True))
        print(f"{name:>4}: updates {host:.1f}, beside copies {host_beside:.1f}; copies {link:.1f}, beside updates {link_beside:.1f}")


if __name__ == "__main__":
    main()
