# SPDX-License-Identifier: Apache-2.0
"""What the library says goes to the logger `castor` of Python's logging, from the thread that trains."""

from __future__ import annotations

import logging

from castor import _core

LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)  # by the numbers of the core


def report(messages: _core.Messages) -> None:
    for level, text in messages.take():
        logging.getLogger("castor").log(LEVELS[level], "%s", text)
