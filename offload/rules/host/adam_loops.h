// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/adam.h>

namespace castor::kernels {

/// The update of adam.h on the calling thread, whose floating-point environment is the default one, with the widest
/// vectors that the processor has.
///
/// Long arrays of 16-bit weights are written past the caches, because their next reader is the bus.
void update_by_vectors(const AdamCoefficients& coefficients, const UpdateArrays& arrays);

}  // namespace castor::kernels
