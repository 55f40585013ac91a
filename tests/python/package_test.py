#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of the package castor, or those that are named: `model_cases`, `traps_cases.Adapters`."""

import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).parent

if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER))
    from where import DEVICE, is_there

    if not is_there(DEVICE):
        print(f"no {DEVICE} here")
        sys.exit(77)  # for Meson: skipped
    load = unittest.defaultTestLoader
    names = [name for name in sys.argv[1:] if not name.startswith("-")]
    suite = load.loadTestsFromNames(names) if names else load.discover(str(FOLDER), pattern="*_cases.py")
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
