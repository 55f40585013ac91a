# SPDX-License-Identifier: Apache-2.0
"""Where torch's allocator has no room for a model's tensors under its device budget, the log says what would do, before torch
raises torch.OutOfMemoryError: its own message has the GPU's free memory, which is no help."""

from __future__ import annotations

import functools
import logging
import weakref

import torch

from castor import _core

BUDGETS: weakref.WeakKeyDictionary[_core.Session, tuple[torch.device, int]] = weakref.WeakKeyDictionary()
SEGMENT_BYTES = 2 << 20  # what the allocator takes at once, at the least


def explain_shortages(session: _core.Session, device: torch.device) -> None:
    """Of a session whose device budget was stated."""
    if device.type != "cuda":
        return
    attach()
    BUDGETS[session] = device, session.stats()["budget_bytes"]["device"]


@functools.cache
def attach() -> None:
    torch._C._cuda_attach_out_of_memory_observer(explain)


def explain(device: int, n_bytes: int, allowed_bytes: int, free_bytes: int) -> None:
    """Called by the allocator, which may have `allowed_bytes`; it asks nothing of a session."""
    budgets = [budget for where, budget in BUDGETS.values() if where.index == device]
    if not budgets or free_bytes < n_bytes or _core.allocates_chunk():
        return  # no budget helps a GPU that is full, and Castor has errors of its own
    above_limit = max(0, torch.cuda.memory_reserved(device) - allowed_bytes)
    enough = max(budgets) + above_limit + max(n_bytes, SEGMENT_BYTES)
    logging.getLogger("castor").warning(
        "the model's tensors need %s more on the device, which device_budget=%r leaves no room for; raise it to %r or more, "
        "use recompute or take smaller batches",
        in_mib(n_bytes),
        in_mib(max(budgets)),
        in_mib(enough),
    )


def in_mib(n_bytes: int) -> str:
    return f"{-(-n_bytes // (1 << 20))}MiB"
