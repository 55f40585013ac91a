// SPDX-License-Identifier: Apache-2.0
#include "model_tensors.h"

namespace castor::shapes {

std::vector<TensorSpec> tensors_of(const Model& model, DType dtype) {
  std::vector<TensorSpec> tensors;
  for (const UnitId unit : ids<UnitId>(model.units.size()))
    for (const std::uint64_t numel : model.units[index(unit)].numels) tensors.push_back({numel, dtype, true, unit});
  return tensors;
}

}  // namespace castor::shapes
