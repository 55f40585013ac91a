#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of finished `meson test` runs: sum_tests.py BUILD_DIR…

Counts the cases of a GoogleTest program one by one, and any other test as one. A program that fails although all its
cases passed (a sanitizer report at exit, a crash before the report) counts as one more failure, and a folder without a
log as one failure. The last line is `N passed, N failed`, with `, N skipped` if there are any; exit status 1 if anything
failed or nothing passed.
"""
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

def gtest_cases(report: pathlib.Path):
    """Yields (name, "passed" | "failed" | "skipped") of each case; the name of a failed case also has its messages."""
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        said = [said.text or "" for said in (*case.iter("failure"), *case.iter("error"))]
        if said:
            yield "\n".join([name, *said]).strip(), "failed"
        elif case.get("status") == "notrun" or case.get("result") == "skipped" or case.find("skipped") is not None:
            yield name, "skipped"
        else:
            yield name, "passed"


def program_cases(build: pathlib.Path, test: dict):
    """Yields the cases of one entry of Meson's log."""
    outcome = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(test["result"], "failed")
    name = re.split(r" / |:", test["name"])[-1]
    report = build / f"{name}.xml"  # Meson has each program of protocol gtest write its report there
    cases = list(gtest_cases(report)) if report.is_file() else []
    yield from cases
    if not cases or (outcome == "failed" and all(result != "failed" for _, result in cases)):
        yield f"{name} ({test['result']})", outcome


def build_cases(build: pathlib.Path):
    log = build / "meson-logs/testlog.json"
    lines = log.read_text().splitlines() if log.is_file() else []
    if not lines:
        yield "does not compile, or has no tests", "failed"
    for line in lines:
        yield from program_cases(build, json.loads(line))


def main(builds: list[str]) -> int:
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for build in builds:
        for name, outcome in build_cases(pathlib.Path(build)):
            total[outcome] += 1
            if outcome == "failed":
                print(f"FAILED {build}: {name}")
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {total['failed']} failed{skipped}")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
