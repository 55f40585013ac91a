#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a folder, moves that elsewhere, and checks that the command finds its plugins there. Exit status
77 (skipped) without Meson.

    installed.py BUILD_DIR
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def meson_command() -> list[str]:
    """Meson as a module of this Python, or as a program; empty if there is neither."""
    if importlib.util.find_spec("mesonbuild"):
        return [sys.executable, "-m", "mesonbuild.mesonmain"]
    program = shutil.which("meson")
    return [program] if program else []


def install(meson: list[str], build: pathlib.Path, target: pathlib.Path) -> None:
    command = [*meson, "install", "-C", str(build), "--no-rebuild", "--quiet", "--destdir", str(target)]
    subprocess.run(command, check=True)


def listed(castor: pathlib.Path) -> dict[str, pathlib.Path]:
    """The plugins that `castor` finds, each with its file."""
    # Meson's tests run with the libraries of the build tree on LD_LIBRARY_PATH.
    env = {name: value for name, value in os.environ.items() if name not in ("CASTOR_PLUGIN_PATH", "LD_LIBRARY_PATH")}
    done = subprocess.run([castor, "plugins", "list", "--json"], env=env, cwd="/", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])["plugins"]
    return {plugin["name"]: pathlib.Path(plugin["path"]) for plugin in found if plugin["ok"]}


def main(build: pathlib.Path) -> int:
    meson = meson_command()
    if not meson:
        print("skipped: Meson is neither a module of this Python nor on PATH")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        install(meson, build, root / "first")
        moved = (root / "first").rename(root / "moved")
        castor = next(path for path in moved.rglob("castor") if path.is_file())
        found = listed(castor)
        print(*(f"{name}: {path}" for name, path in sorted(found.items())), sep="\n")
        problems = [name for name in ("gemini", "minimal_c") if not found.get(name, build).is_relative_to(moved)]
        print(*(f"{name} is not found in the moved tree" for name in problems), sep="\n")
        return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
