#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, for libraries by their short names, the file of each, the name that programs load it by, and the file with its
licence (-: this system has no record of it).

    bundled_libs.py NAME...     exit 1 and one line on stderr where one is missing
"""
import os
import pathlib
import re
import subprocess
import sys


def licence_of(library: pathlib.Path) -> pathlib.Path | None:
    """The copyright file of the Debian package that the library is from."""
    for path in (str(library), str(library).removeprefix("/usr")):
        try:
            found = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True)
        except FileNotFoundError:
            return None
        if found.returncode == 0:
            file = pathlib.Path("/usr/share/doc", re.split("[:,]", found.stdout)[0], "copyright")
            return file.resolve() if file.is_file() else None
    return None


def main() -> int:
    compiler = os.environ.get("CXX", "g++").split()
    for name in sys.argv[1:]:
        found = subprocess.run([*compiler, f"-print-file-name=lib{name}.so"], capture_output=True, text=True).stdout.strip()
        path = pathlib.Path(found).resolve()
        if not path.is_absolute() or not path.is_file():
            print(f"the compiler finds no lib{name}.so", file=sys.stderr)
            return 1
        headers = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
        print(path, re.search(r"SONAME\s+(\S+)", headers).group(1), licence_of(path) or "-")
    return 0


if __name__ == "__main__":
    sys.exit(main())
