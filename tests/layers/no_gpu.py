#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a machine without a GPU `castor train --device cuda` prints one line about it and exits with 1: no_gpu.py CASTOR.

Exit status 77 (skipped) if there is a GPU, or if no castor was built because LibTorch is missing.
"""
import pathlib
import subprocess
import sys


def main(castor: pathlib.Path) -> int:
    if pathlib.Path("/dev/nvidiactl").exists():
        print("skipped: this machine has a GPU")
        return 77
    if not castor.is_file():
        print(f"skipped: {castor} was not built")
        return 77
    done = subprocess.run([castor, "train", "--device", "cuda", "--model", "mlp", "--steps", "1"], capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    if done.returncode == 1 and len(lines) == 1 and "no GPU" in lines[0]:
        print(lines[0])
        return 0
    print(f"expected exit status 1 and one line with `no GPU`; got {done.returncode} and:\n{done.stderr}")
    return 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
