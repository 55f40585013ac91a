# SPDX-License-Identifier: Apache-2.0
"""What stands beside torch.nn and torch.optim."""

from castor.nn import lr_scheduler, optimizer

__all__ = ["lr_scheduler", "optimizer"]
