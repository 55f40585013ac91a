#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what Ninja must build for the tests of some suites: test_targets.py BUILD_DIR SUITE… -SUITE…

Tests of a suite with a minus are left out, as `meson test --no-suite` does.
"""
import json
import pathlib
import sys


def main(build: pathlib.Path, suites: list[str]) -> None:
    info = build / "meson-info"
    files = {target["id"]: target["filename"] for target in json.loads((info / "intro-targets.json").read_text())}
    wanted = set()
    for test in json.loads((info / "intro-tests.json").read_text()):
        its = {suite.split(":")[-1] for suite in test["suite"]}
        if its & set(suites) and not its & {suite[1:] for suite in suites if suite.startswith("-")}:
            wanted.update(file for target in test["depends"] for file in files[target])
    if not wanted:
        sys.exit(f"test_targets: no tests of {' '.join(suites)} in {build}")
    for file in sorted(wanted):
        print(pathlib.Path(file).relative_to(build.resolve()))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
