#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the exported symbols of the shared objects. Exit status 77 (skipped) if none is built.

    exports.py library FILE      only names of castor: namespace castor, castor_*, the type information of both,
                                 and the versions of names (packaging/export_map.py)
    exports.py plugins FOLDER    each plugin below it: castor_plugin_query_v2 and nothing else
"""
import pathlib
import re
import subprocess
import sys

OURS = re.compile(r"(((vtable|VTT|typeinfo|typeinfo name|guard variable) for |(non-)?virtual (non-virtual )?thunk to )?castor::|castor_|CASTOR_(0|PRIVATE)$)")


def exported(library: pathlib.Path) -> list[str]:
    out = subprocess.run(["nm", "-D", "-C", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return sorted({line.split(maxsplit=2)[2] for line in out.splitlines()})


def foreign(kind: str, names: list[str]) -> list[str]:
    if kind == "plugins":
        return [name for name in names if name != "castor_plugin_query_v2"]
    return [name for name in names if not OURS.match(name)]


def built(kind: str, place: pathlib.Path) -> list[pathlib.Path]:
    if kind == "library":
        return [place] if place.is_file() else []
    return [path for path in sorted(place.rglob("libcastor_*.so")) if path.name != "libcastor_torch.so"]


def main(kind: str, place: pathlib.Path) -> int:
    libraries = built(kind, place)
    if not libraries:
        print(f"skipped: {place} is not built, or holds no plugin")
        return 77
    failed = False
    for library in libraries:
        names = exported(library)
        others = foreign(kind, names)
        print(f"{library.name}: {len(names)} exported, {len(others)} of them should not be", *others[:20], sep="\n  ")
        failed |= bool(others) or not names
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], pathlib.Path(sys.argv[2])))
