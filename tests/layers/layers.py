#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of the tree with the compiler: the table below says which modules each module may include.

    layers.py alone MODULE BUILD_DIR -- COMPILER ARG…
                                                every public header of MODULE compiles alone, with only the include folders
                                                that MODULE may use; those that begin a source of MODULE do so in the build
    layers.py upward MODULE -- COMPILER ARG…    no header of a module that MODULE may not include can be found there, although it
                                                can in its own module
    layers.py build BUILD_DIR                   the build gives the sources of each module no other folders than these
    layers.py c -- COMPILER ARG…                the plugin ABI is C11
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = ["memory", "parallel", "chunk"]
ROOMS = [f"offload/{room}" for room in ("rules", "plan", "mover", "schedule", "states", "optimizer", "standalone")]
CORE = ["memory", "io", "parallel", "chunk", *ROOMS]
ALLOWED = {
    "memory": [],
    "io": ["memory"],
    "parallel": ["memory"],
    "chunk": ["memory", "parallel"],
    "offload/rules": ["memory"],
    "offload/plan": BASE,
    "offload/mover": [*BASE, "offload/plan"],
    "offload/schedule": [*BASE, "offload/plan", "offload/mover"],
    "offload/states": [*BASE, "io", "offload/rules", "offload/plan", "offload/mover"],
    "offload/optimizer": [*BASE, "io", *ROOMS[:-2]],
    "offload/standalone": ["memory", "io", "offload/rules"],
    "plugins": CORE,
    "plugins/training": [*CORE, "plugins"],
    "plugins/memprof": CORE,
    "plugins/engine": [*CORE, "plugins"],
    "plugins/gemini": [*CORE, "plugins", "plugins/engine"],
    "plugins/torch": [*CORE, "plugins", "plugins/training", "plugins/engine", "plugins/gemini"],
    "examples/models": [*CORE, "plugins", "plugins/training", "plugins/engine", "plugins/gemini", "plugins/torch"],
}


def include_folders(module: str) -> list[str]:
    return [f"-I{ROOT / name / 'include'}" for name in [module, *ALLOWED[module]]]


def headers(module: str) -> list[str]:
    """The public headers of `module` as they are included: castor/memory/tier.h."""
    folder = ROOT / module / "include"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.h"))


class Compiler:
    """Tries single sources with -fsyntax-only; writes no output files."""

    def __init__(self, command: list[str], language: str = "c++"):
        self.command = [*command, "-fsyntax-only", "-x", language]

    def run(self, module: str, text: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "probe"
            source.write_text(text)
            return subprocess.run([*self.command, *include_folders(module), str(source)], capture_output=True, text=True)

    def errors(self, module: str, header: str) -> str:
        """The compiler's messages for a source of `module` that includes `header` twice; empty if it compiles."""
        done = self.run(module, f"#include <{header}>\n#include <{header}>\n")
        return "" if done.returncode == 0 else done.stderr or f"exit status {done.returncode}"

    def found(self, module: str, names: list[str]) -> set[str]:
        """Those of the headers `names` that a source of `module` can include. One run answers for all of them."""
        asked = (f'#if __has_include(<{name}>)\n#pragma message("found {name}")\n#endif\n' for name in names)
        done = self.run(module, "".join(asked))
        if done.returncode != 0:
            raise RuntimeError(f"the compiler failed on a source that only asks for headers:\n{done.stderr}")
        return {name for name in names if re.search(rf"found {re.escape(name)}\b", done.stderr)}


def in_parallel(check, items) -> list[str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [problem for problem in pool.map(check, items) if problem]


def begin_a_source(module: str, build: pathlib.Path) -> set[str]:
    """The headers that the build compiles as the first of a source of `module`, with nothing before them: no other file of a
    unity build and no precompiled header."""
    begun = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = (build / entry["file"]).resolve()
        if owner_of(source) == module and "-include" not in entry["command"]:
            first = re.search(r"^#include <(.+)>$", source.read_text(), re.MULTILINE)
            begun |= {first[1]} if first else set()
    return begun


def check_alone(compiler: Compiler, module: str, build: pathlib.Path) -> list[str]:
    def problem(header):
        errors = compiler.errors(module, header)
        return errors and f"{header} does not compile alone:\n{errors}"

    found = headers(module)
    if not found:
        return [f"{module} has no public header; is the table in {__file__} up to date?"]
    begun = begin_a_source(module, build).intersection(found)
    print(f"{module}: {len(found)} public headers, {len(begun)} of which begin a source")
    unguarded = [header for header in sorted(begun) if "\n#pragma once\n" not in (ROOT / module / "include" / header).read_text()]
    left = [header for header in found if header not in begun]
    return in_parallel(problem, left) + [f"{header} has no #pragma once" for header in unguarded]


def check_upward(compiler: Compiler, module: str) -> list[str]:
    above = {owner: headers(owner) for owner in ALLOWED if owner != module and owner not in ALLOWED[module]}
    names = [header for owned in above.values() for header in owned]
    print(f"{module}: {len(names)} headers must be out of reach")
    problems = [f"{module} can include {header}, a header of a higher layer" for header in sorted(compiler.found(module, names))]
    # The control: the same question finds each of them from its own module.
    for owner, owned in above.items():
        problems += [f"{header} is not found in {owner}, its own module" for header in sorted(set(owned) - compiler.found(owner, owned))]
    return problems


def owner_of(path: pathlib.Path) -> str | None:
    """The module whose folder contains `path`, the innermost if several do."""
    return next((name for name in sorted(ALLOWED, key=len, reverse=True) if path.is_relative_to(ROOT / name)), None)


def foreign_folders(entry: dict) -> set[str]:
    """The modules that one entry of compile_commands.json can include in violation of the table."""
    base = pathlib.Path(entry["directory"]).resolve()
    source = (base / entry["file"]).resolve()
    # A unity build compiles generated files, whose place in the build folder mirrors their module's in the tree.
    module = owner_of(ROOT / source.relative_to(base) if source.is_relative_to(base) else source)
    if module is None:
        return set()
    folders = [(base / match).resolve() for match in re.findall(r"-(?:I|isystem)\s*([^\s'\"]+)", entry["command"])]
    seen = {name for name in ALLOWED if ROOT / name / "include" in folders}
    return {f"{module} sees {name} ({entry['file']})" for name in seen - {module, *ALLOWED[module]}}


def check_build(build: pathlib.Path) -> list[str]:
    entries = json.loads((build / "compile_commands.json").read_text())
    return sorted(set().union(*map(foreign_folders, entries)))


def check_c(compiler: Compiler) -> list[str]:
    errors = compiler.errors("plugins", "castor/plugins/abi.h")
    return [errors] if errors else []


def main(args: list[str]) -> int:
    args, command = (args[: args.index("--")], args[args.index("--") + 1:]) if "--" in args else (args, [])
    checks = {
        "alone": lambda: check_alone(Compiler(command), args[1], pathlib.Path(args[2])),
        "upward": lambda: check_upward(Compiler(command), args[1]),
        "build": lambda: check_build(pathlib.Path(args[1])),
        "c": lambda: check_c(Compiler(command, "c")),
    }
    problems = checks[args[0]]()
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
