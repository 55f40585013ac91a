// SPDX-License-Identifier: Apache-2.0
#include "model_tensors.h"

namespace castor::shapes {

std::vector<TensorSpec> tensors_of(const Model& model, DType dtype) {
  std::vector<TensorSpec> tensors;
  for (const UnitId unit : model.units.ids())
    for (const std::uint64_t numel : model.units[unit].numels) tensors.push_back({numel, dtype, true, unit});
  return tensors;
}

}  // namespace castor::shapes
