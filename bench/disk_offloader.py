#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""castor.io.DiskOffloader beside `castor bench io`, the tensor store alone, in turns in one call.

    python3 bench/disk_offloader.py --folder FOLDER     # seconds; FOLDER on the drive, needs --span of memory and of the drive

Of each size of tensors, writes and then reads tensors of --span bytes in all, several times; a write frees their memory, a
read makes it. Prints GB/s (10^9 bytes), and the ratio to the store's of the same turn: median, least, most.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch

from castor.io import DiskOffloader


def of_offloader(drive: DiskOffloader, tensors: list[torch.Tensor]) -> dict[str, float]:
    """Seconds: one call for each tensor, and one wait."""
    seconds = {}
    for name, call in (("write", drive.async_write), ("read", drive.async_read)):
        begin = time.perf_counter()
        for tensor in tensors:
            call(tensor)
        drive.synchronize()
        seconds[name] = time.perf_counter() - begin
    return seconds


def of_store(arguments: argparse.Namespace, size: str) -> dict[str, float]:
    """GB/s, over memory of as many bytes."""
    options = ["--sizes", size, "--rw", "write,read", "--checksums", "on", "--runs", "1", "--span", f"{arguments.span}MiB"]
    options += ["--memory", f"{arguments.span}MiB", "--fio", "off", "--json"]
    command = [arguments.castor, "bench", "io", "--dir", arguments.folder, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(done.stderr)
    return {found["rw"]: found["value"] for found in json.loads(done.stdout.splitlines()[-1])["results"] if "rw" in found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--castor", default="castor", help="the command")
    parser.add_argument("--span", type=int, default=1024, help="MiB of each turn")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    for n_mib in (1, 8, 64):
        drive = DiskOffloader(arguments.folder)
        tensors = [torch.randn(n_mib << 18) for _ in range(arguments.span // n_mib)]
        of_offloader(drive, tensors)
        shares: dict[str, list[float]] = {"write": [], "read": []}
        rates: dict[str, list[float]] = {"write": [], "read": []}
        for _ in range(arguments.turns):
            seconds, alone = of_offloader(drive, tensors), of_store(arguments, f"{n_mib}MiB")
            for name in shares:
                rates[name].append((arguments.span << 20) / 1e9 / seconds[name])
                shares[name].append(rates[name][-1] / alone[name])
        for name in shares:
            spread = f"{statistics.median(shares[name]):.3f} ({min(shares[name]):.3f} to {max(shares[name]):.3f})"
            print(f"{name} {n_mib:2} MiB: {statistics.median(rates[name]):.2f} GB/s, {spread} of the store", flush=True)


if __name__ == "__main__":
    main()
