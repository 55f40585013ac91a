# SPDX-License-Identifier: Apache-2.0
"""castor.mixed_precision under the name that older scripts import."""

from castor.mixed_precision import BF16MixedPrecision, FP16TorchMixedPrecision, MixedPrecision

__all__ = ["BF16MixedPrecision", "FP16TorchMixedPrecision", "MixedPrecision"]
