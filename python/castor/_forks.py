# SPDX-License-Identifier: Apache-2.0
"""Sessions in a forked process (a worker of a DataLoader), which has none of the threads that serve them."""

from __future__ import annotations

import ctypes
import functools
import os
import weakref
from collections.abc import Callable

from castor import _core
from castor._errors import Error

SESSIONS: weakref.WeakSet[_core.Session] = weakref.WeakSet()
OF_PARENTS: set[int] = set()  # the addresses of sessions that this process is a fork of; they live as long as it


def leave_to_parent() -> None:
    """In the child: the end of a session waits for its threads, so those that were there before do not end."""
    if SESSIONS and not OF_PARENTS:
        refuse_calls()
    for session in SESSIONS:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
        OF_PARENTS.add(id(session))


def refuse_calls() -> None:
    for name, method in list(vars(_core.Session).items()):
        if not name.startswith("_"):
            setattr(_core.Session, name, refusing(getattr(_core.Session, name)))


def refusing(method: Callable) -> Callable:
    @functools.wraps(method)
    def call(session: _core.Session, *args: object) -> object:
        if id(session) in OF_PARENTS:
            raise Error("the model was boosted in another process, of which this one is a fork; use it there alone", "usage")
        return method(session, *args)

    return call


os.register_at_fork(after_in_child=leave_to_parent)
