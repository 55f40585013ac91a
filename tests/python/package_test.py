#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of the package castor."""

import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).parent

if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER))
    suite = unittest.defaultTestLoader.discover(str(FOLDER), pattern="*_cases.py")
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
