# SPDX-License-Identifier: Apache-2.0
"""meson-python as the package's build backend. meson and ninja are found beside the interpreter where its environment is not
activated. What meson-python asks of patchelf bin/patchelf does where there is no other."""

import os
import shutil
import sys
from pathlib import Path


def search_also(folder: Path) -> None:
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(folder)])


search_also(Path(sys.executable).parent)
if shutil.which("patchelf") is None:
    search_also(Path(__file__).parent / "bin")

from mesonpy import (  # noqa: E402
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]
