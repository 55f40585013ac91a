# SPDX-License-Identifier: Apache-2.0
"""Sessions, optimizers without one and drives in a forked process (a worker of a DataLoader), which has none of the threads that
serve them."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable

from castor import _core
from castor._errors import Error

SESSIONS: weakref.WeakSet[_core.Session] = weakref.WeakSet()
OPTIMIZERS: weakref.WeakSet[_core.TensorOptimizer] = weakref.WeakSet()
STORES: weakref.WeakSet[_core.DriveStore] = weakref.WeakSet()
BEGUN = (
    (SESSIONS, "the model was boosted"),
    (OPTIMIZERS, "the optimizer made its first step"),
    (STORES, "the offloader was made"),
)
OF_PARENTS: set[int] = set()  # the addresses of those that this process is a fork of; they live as long as it
REFUSING: set[type] = set()  # classes whose methods look there


def leave_to_parent() -> None:
    """In the child: their ends wait for their threads, so those that were there before do not end."""
    for living, begun in BEGUN:
        for each in living:
            refuse_calls(type(each), begun)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
            OF_PARENTS.add(id(each))


def refuse_calls(owner: type, begun: str) -> None:
    if owner in REFUSING:
        return
    REFUSING.add(owner)
    for name in list(vars(owner)):
        if not name.startswith("_"):
            setattr(owner, name, refusing(getattr(owner, name), begun))


def refusing(method: Callable, begun: str) -> Callable:
    @functools.wraps(method)
    def call(owner: object, *args: object) -> object:
        if id(owner) in OF_PARENTS:
            raise Error(f"{begun} in another process, of which this one is a fork; use it there alone", "usage")
        return method(owner, *args)

    return call


os.register_at_fork(after_in_child=leave_to_parent)
