#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the sentences of the library: no string of it names a flag of a command, and nothing of it prints.

    sentences.py flags     options are named in backquotes, `host_budget`; the front end words them
    sentences.py prints    messages go through the log callback alone
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ["memory", "io", "parallel", "chunk", "offload", "plugins"]
SUFFIXES = {".cpp", ".h", ".c", ".cu", ".cuh", ".inc"}
# A comment, a string or a character: whichever begins first.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
FLAG = re.compile(r"(?<![\w-])--[a-z]")
PRINT = re.compile(r"std::(cout|cerr|clog)\b|\b(printf|vprintf|puts|putchar|perror)\s*\("
                   r"|\bv?fprintf\s*\(\s*std(out|err)|\bfputs\s*\([^;]*\bstd(out|err)\b|\bfmt::print|\bspdlog\b|\bSTD(OUT|ERR)_FILENO\b")


def sources():
    for room in ROOMS:
        yield from sorted(path for path in (ROOT / room).rglob("*") if path.suffix in SUFFIXES)


def flags(text):
    return [token for token in TOKEN.findall(text) if token.startswith('"') and FLAG.search(token)]


def prints(text):
    code = TOKEN.sub(lambda found: " " if found.group()[0] in "/\"" else found.group(), text)
    return [found.group() for found in PRINT.finditer(code)]


def main():
    check = {"flags": flags, "prints": prints}[sys.argv[1]]
    n_sources = n_found = 0
    for path in sources():
        n_sources += 1
        for found in check(path.read_text()):
            n_found += 1
            print(f"{path.relative_to(ROOT)}: {found}", file=sys.stderr)
    if n_sources < 100:
        sys.exit(f"only {n_sources} sources were found under {ROOT}")
    sys.exit(1 if n_found else 0)


if __name__ == "__main__":
    main()
