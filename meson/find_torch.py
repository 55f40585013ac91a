#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the facts about an installed torch that Meson needs, without importing it: folder, version, CUDA (yes or no), site-packages.

    find_torch.py [TORCH_ROOT]     exit 1 and one line on stderr if there is none
"""
import importlib.util
import pathlib
import re
import sys


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1]:
        root = pathlib.Path(sys.argv[1])
    else:
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.submodule_search_locations:
            print(f"{sys.executable} has no torch", file=sys.stderr)
            return 1
        root = pathlib.Path(spec.submodule_search_locations[0])
    version_file = root / "version.py"
    if not version_file.is_file() or not (root / "include").is_dir():
        print(f"{root} is not an installed torch: version.py or include/ is missing", file=sys.stderr)
        return 1
    version = re.search(r"__version__ = ['\"]([^'\"]+)", version_file.read_text()).group(1)
    cuda = "yes" if list((root / "lib").glob("libtorch_cuda.so*")) else "no"
    print(root, version, cuda, root.parent, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
