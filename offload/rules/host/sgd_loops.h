// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/sgd.h>

namespace castor::kernels {

/// The update of sgd.h, under the same conditions as update_by_vectors of adam_loops.h.
void update_by_vectors(const SgdCoefficients& coefficients, const UpdateArrays& arrays);

}  // namespace castor::kernels
