# SPDX-License-Identifier: Apache-2.0
"""What torch.compile leaves as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

Function = TypeVar("Function", bound=Callable)


def eager(function: Function) -> Function:
    """The function itself, which torch.compile neither traces nor looks into. torch.compiler.disable() would wrap it, which takes
    a third as long as all that a unit's pass does; it leaves the same marks for the tracer."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "castor moves parameters there; compile blocks, or without fullgraph=True"
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    return function
