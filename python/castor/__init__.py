# SPDX-License-Identifier: Apache-2.0
"""Castor trains PyTorch models whose parameters, gradients and optimizer states do not fit on the device."""

import torch  # noqa: F401  loads the libraries that castor._core needs

from castor._access import gathered, grad, master, set_grad
from castor._errors import Error

__all__ = ["Error", "gathered", "grad", "master", "set_grad"]
