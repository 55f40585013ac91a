// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <castor/chunk/chunk_layout.h>

#include "model_shapes.h"

namespace castor::shapes {

/// The parameters of `model` in `dtype`, all trainable, unit by unit in the order of the forward pass.
std::vector<TensorSpec> tensors_of(const Model& model, DType dtype);

}  // namespace castor::shapes
