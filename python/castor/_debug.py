# SPDX-License-Identifier: Apache-2.0
"""Accesses to memory that is not there, by functions that are no operators, as numpy()."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from castor._errors import Error


def check_modes() -> None:
    """Modes that are entered would end first, and each end takes the last of all modes."""
    for_good = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)  # torch.set_default_device
    for mode in _get_current_function_mode_stack():
        if mode is not for_good and not isinstance(mode, ReleasedAccess):
            what = f"torch.device({str(mode.device)!r})" if isinstance(mode, DeviceContext) else type(mode).__name__
            raise Error(f"debug=True watches the program from boost() on; call that outside of `with {what}`", "usage", "debug")


class ReleasedAccess(TorchFunctionMode):
    """Within it torch's error about a weight or gradient without memory is a castor.Error. Watches functions of the thread that
    enters it, in Python."""

    entered = False

    def __enter__(self) -> ReleasedAccess:
        self.entered = True
        return super().__enter__()

    def leave(self) -> None:
        """Where another mode was entered since, this one stays below it until that has left."""
        self.entered = False
        while isinstance(last := _get_current_function_mode(), ReleasedAccess) and not last.entered:
            last.__exit__(None, None, None)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if isinstance(error, Error) or "castor." not in str(error):
                raise
            raise Error(str(error), "usage") from None
