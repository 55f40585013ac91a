# SPDX-License-Identifier: Apache-2.0
"""Runs unittest cases and writes a GoogleTest report (--gtest_output=xml:FILE), so that Meson and the sum of all
tests count them one by one."""

import sys
import time
import unittest
from xml.etree import ElementTree


class Recorder(unittest.TextTestResult):
    """Records the outcome of each case, and its seconds."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []
        self.began = 0.0

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def record(self, test, outcome, detail=""):
        suite, case = test.id().split(".")[-2:]
        self.cases.append((suite, case, outcome, detail, time.monotonic() - self.began))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "failed", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, "skipped", reason)


def write_xml(cases, path):
    root = ElementTree.Element(
        "testsuites", tests=str(len(cases)), failures=str(sum(case[2] == "failed" for case in cases)), name="AllTests"
    )
    suites = {}
    for suite, case, outcome, detail, seconds in cases:
        if suite not in suites:
            suites[suite] = ElementTree.SubElement(
                root, "testsuite", name=suite, tests=str(sum(other[0] == suite for other in cases))
            )
        node = ElementTree.SubElement(
            suites[suite], "testcase", name=case, classname=suite, status="run", result="completed", time=f"{seconds:.3f}"
        )
        if outcome == "failed":
            ElementTree.SubElement(node, "failure", message=detail).text = detail
        if outcome == "skipped":
            node.set("result", "skipped")
            ElementTree.SubElement(node, "skipped", message=detail)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def main(arguments, module="__main__"):
    """Runs the cases of `module`, or those whose names are among `arguments`; returns the exit status."""
    xml = [word.split(":", 1)[1] for word in arguments if word.startswith("--gtest_output=xml:")]
    names = [word for word in arguments if not word.startswith("--")]
    loader = unittest.defaultTestLoader
    suite = (
        loader.loadTestsFromNames(names, sys.modules[module])
        if names
        else loader.loadTestsFromModule(sys.modules[module])
    )
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Recorder).run(suite)
    if xml:
        write_xml(result.cases, xml[0])
    return 0 if result.wasSuccessful() else 1
