# SPDX-License-Identifier: Apache-2.0
"""Castor trains PyTorch models whose parameters, gradients and optimizer states do not fit on the device."""

import torch  # loads the libraries that castor._core needs

from castor import _built_for

if torch.__version__ != _built_for.TORCH:
    raise ImportError(
        f"this castor was built for torch {_built_for.TORCH}, and torch {torch.__version__} is installed; build it again "
        "with: pip install --no-build-isolation --force-reinstall --no-deps ."
    )

from castor._access import gathered, grad, master, set_grad, stats, trace  # noqa: E402
from castor._errors import Error  # noqa: E402

__version__ = _built_for.VERSION
__all__ = ["Error", "gathered", "grad", "master", "set_grad", "stats", "trace"]
