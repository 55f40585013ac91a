// SPDX-License-Identifier: Apache-2.0
#include "weight_versions.h"

namespace castor {

WeightVersions::WeightVersions(const NamedTensors& params) {
  for (const auto& [name, tensor] : params)
    weights_.push_back({name, tensor, tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version())});
}

void WeightVersions::count_up(const std::vector<std::uint32_t>& changed) {
  for (const std::uint32_t id : changed) {
    Weight& weight = weights_.at(id);
    if (weight.tensor.is_inference()) continue;
    weight.tensor.unsafeGetTensorImpl()->bump_version();
    ++weight.version;
  }
}

Result<void> WeightVersions::check() {
  for (Weight& weight : weights_) {
    if (weight.tensor.is_inference()) continue;
    const auto version = static_cast<std::int64_t>(weight.tensor._version());
    if (version == weight.version) continue;
    weight.version = version;
    return Error{ErrorKind::usage,
                 "parameter " + weight.name +
                     " was written in place, which its master has not seen, so the next update would "
                     "undo it; between steps write within castor.gathered(parameter, write=True) (in C++ "
                     "Session::load)"};
  }
  return {};
}

}  // namespace castor
