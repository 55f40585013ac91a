# SPDX-License-Identifier: Apache-2.0
"""Accesses to memory that is not there, by functions that are no operators, as numpy()."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode

from castor._errors import Error


class ReleasedAccess(TorchFunctionMode):
    """Within it torch's error about a weight or gradient without memory is a castor.Error. Watches functions of the thread that
    enters it, in Python."""

    def abandon(self) -> None:
        if _get_current_function_mode() is self:
            self.__exit__(None, None, None)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if isinstance(error, Error) or "castor." not in str(error):
                raise
            raise Error(str(error), "usage") from None
