#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""castor.io.DiskOffloader beside the tensor store alone, as `castor bench io` has it, in turns in one call.

    python3 bench/disk_offloader.py --folder FOLDER     # minutes; FOLDER on the drive, needs --span of memory and of the drive

Of each size of tensors, writes and then reads tensors of --span bytes in all; a write frees their memory, a read makes it.
A turn is the median of --rounds of one, after a round that is not timed, and then of the other, each with a new file: drives
differ by a quarter from file to file. Prints GB/s (10^9 bytes), and the ratio to the store's of the same turn: median,
least, most.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

from castor.io import DiskOffloader


def of_offloader(arguments: argparse.Namespace, n_mib: int) -> dict[str, float]:
    """GB/s: one call for each tensor, and one wait."""
    drive = DiskOffloader(arguments.folder)
    tensors = [torch.randn(n_mib << 18) for _ in range(arguments.span // n_mib)]
    rates: dict[str, list[float]] = {"write": [], "read": []}
    os.sync()  # what the store has left behind
    for _ in range(1 + arguments.rounds):
        for name, call in (("write", drive.async_write), ("read", drive.async_read)):
            begin = time.perf_counter()
            for tensor in tensors:
                call(tensor)
            drive.synchronize()
            rates[name].append((arguments.span << 20) / 1e9 / (time.perf_counter() - begin))
    return {name: statistics.median(found[1:]) for name, found in rates.items()}


def of_store(arguments: argparse.Namespace, size: str) -> dict[str, float]:
    """GB/s, over memory of as many bytes, all of which is put once before the rounds."""
    options = ["--sizes", size, "--rw", "write,read", "--checksums", "on", "--runs", str(arguments.rounds), "--fio", "off", "--json"]
    options += ["--span", f"{arguments.span}MiB", "--memory", f"{arguments.span}MiB"]
    command = [arguments.castor, "bench", "io", "--dir", arguments.folder, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return {found["rw"]: found["value"] for found in json.loads(done.stdout.splitlines()[-1])["results"] if "rw" in found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--castor", default="castor", help="the command")
    parser.add_argument("--span", type=int, default=1024, help="MiB of each round")
    parser.add_argument("--mib", type=int, nargs="+", default=[1, 8, 64], help="sizes of tensors")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=15)
    arguments = parser.parse_args()
    for n_mib in arguments.mib:
        turns = [(of_offloader(arguments, n_mib), of_store(arguments, f"{n_mib}MiB")) for _ in range(arguments.turns)]
        for name in ("write", "read"):
            shares = [mine[name] / alone[name] for mine, alone in turns]
            rate = statistics.median(mine[name] for mine, _ in turns)
            spread = f"{statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f})"
            print(f"{name} {n_mib:2} MiB: {rate:.2f} GB/s, {spread} of the store", flush=True)


if __name__ == "__main__":
    main()
