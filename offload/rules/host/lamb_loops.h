// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/direction_norm.h>

namespace castor::kernels {

/// The update of lamb.h, under the same conditions as update_by_vectors of adam_loops.h.
void update_by_vectors(const LambCoefficients& coefficients, const UpdateArrays& arrays);

/// Writes the sums of the rows of `arrays`, of masters and of directions (sum_direction_rows); likewise.
void sum_rows_by_vectors(const LambCoefficients& coefficients, const UpdateArrays& arrays, double* masters,
                         double* directions);

}  // namespace castor::kernels
