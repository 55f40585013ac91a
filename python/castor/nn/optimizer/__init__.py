# SPDX-License-Identifier: Apache-2.0
"""Optimizers for a Booster, and without one: then their updates run in the same kernels, with the same bits."""

from castor.nn.optimizer._optimizers import CPUAdam, FusedAdam, FusedLAMB, FusedSGD, HybridAdam, Lamb, Lars

__all__ = ["CPUAdam", "FusedAdam", "FusedLAMB", "FusedSGD", "HybridAdam", "Lamb", "Lars"]
