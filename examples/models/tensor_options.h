// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/models/model.h>

#include <ATen/core/Tensor.h>

namespace castor {

/// The dtype and device of a model's weights and activations.
inline at::TensorOptions tensor_options(const ModelOptions& options) {
  const at::ScalarType dtype = options.dtype == DType::bf16  ? at::kBFloat16
                               : options.dtype == DType::f16 ? at::kHalf
                                                             : at::kFloat;
  return at::TensorOptions(dtype).device(options.device);
}

}  // namespace castor
