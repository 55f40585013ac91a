#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the version script of libcastor and libcastor_torch from the headers in stable_headers.txt.

    export_map.py SOURCE_ROOT OUTPUT hidden|visible

Version CASTOR_0 has the classes and functions that these headers declare, for programs and plugins that are compiled
elsewhere. CASTOR_PRIVATE has the rest of namespace castor, for the libraries, plugins and the command that are built
and installed together. All other names are hidden in libcastor: the CUDA runtime, instances of the standard library's
templates. They stay visible in libcastor_torch, which throws exceptions that others catch: where the C++ runtime is
linked statically, hidden copies of it would not know of one another's exceptions.
"""
import pathlib
import re
import sys

TEXT = """CASTOR_PRIVATE {{
  global: extern "C++" {{ castor::*; *?for?castor::*; }};{others}
}};
/* The linker takes the last pattern that matches. A quoted pattern would be taken literally, hence ? for a space. */
CASTOR_0 {{
  global: castor_*; extern "C++" {{
{names}
  }};
}};
"""
END = "[!a-zA-Z0-9_]"  # of a name
OTHERS = {"hidden": "\n  local: *;", "visible": ""}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
NAMESPACE = re.compile(r"^namespace (castor[\w:]*) \{", re.M)
CLASS = re.compile(r"^(?:class|struct)(?:\s*\[\[\w+\]\])?\s+(\w+)[^;{]*\{", re.M)
OTHER = r"class|struct|using|template|#|inline|constexpr|extern"
FUNCTION = re.compile(rf"^(?!{OTHER})[A-Za-z_][\w:<>,&* ]*?[ &*](\w+)\(", re.M)


def stable_headers(root: pathlib.Path) -> list[pathlib.Path]:
    lines = (root / "packaging/stable_headers.txt").read_text().splitlines()
    return [root / line for line in lines if line and not line.startswith("#")]


def patterns(header: str) -> list[str]:
    """The patterns of the classes, with their type information, and of the functions that `header` declares."""
    code = COMMENT.sub("", header)
    within = next(iter(NAMESPACE.findall(code)), "castor")
    found = [f"{within}::{name}{END}*; *?for?{within}::{name}" for name in CLASS.findall(code)]
    return found + [f"{within}::{name}{END}*" for name in FUNCTION.findall(code)]


def main(root: pathlib.Path, output: pathlib.Path, others: str) -> None:
    names = {pattern for path in stable_headers(root) if path.suffix == ".h" for pattern in patterns(path.read_text())}
    output.write_text(TEXT.format(others=OTHERS[others], names="\n".join(f"    {name};" for name in sorted(names))))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
