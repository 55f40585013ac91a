# SPDX-License-Identifier: Apache-2.0
"""Runs the built castor as a user does: castor_command.py [--gtest_output=xml:FILE] [FILE_cases] [Class.case …]; without
FILE_cases, the cases of all files."""

import importlib
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOMS = [HERE / room for room in ("bench", "cli", "memprof", "train")]
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), *map(str, ROOMS)]
import gtest_runner  # noqa: E402

if __name__ == "__main__":
    files = [word for word in sys.argv[1:] if word.endswith("_cases")]
    for name in files or sorted(path.stem for room in ROOMS for path in room.glob("*_cases.py")):
        globals().update(vars(importlib.import_module(name)))
    sys.exit(gtest_runner.main([word for word in sys.argv[1:] if word not in files]))
