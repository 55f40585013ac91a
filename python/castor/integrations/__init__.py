# SPDX-License-Identifier: Apache-2.0
"""Castor within the loops of other packages: each module needs the package that it is named after."""

from __future__ import annotations

import contextlib

from castor._boosted import BoostedOptimizer
from castor._errors import Error

RUN = "castor_run"  # the folder of what save_optimizer keeps, in a checkpoint of such a loop


def drop_open_step(optimizer: object) -> None:
    """Where a boosted optimizer's loop has ended within a step, so that the model can be saved and loaded: its values are those
    of the last step. A step in which some parameters were updated already stays open, and saving says so."""
    if isinstance(optimizer, BoostedOptimizer):
        with contextlib.suppress(Error):
            optimizer.zero_grad()
