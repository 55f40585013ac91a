// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/offload/direction_norm.h>

namespace castor::kernels {

/// The update of lamb.h, as update_by_vectors of adam_loops.h does Adam's.
void update_by_vectors(const LambCoefficients& coefficients, const AdamArrays& arrays);

/// add_direction of direction_norm.h likewise.
void add_by_vectors(const LambCoefficients& coefficients, const AdamArrays& piece, DirectionLanes& lanes);

}  // namespace castor::kernels
