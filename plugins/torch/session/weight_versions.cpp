// SPDX-License-Identifier: Apache-2.0
#include "weight_versions.h"

namespace castor {
namespace {

/// Which autograd counts up at every change in place. Inference tensors have none: 0.
std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

}  // namespace

WeightVersions::WeightVersions(const NamedTensors& params) {
  for (const auto& [name, tensor] : params) weights_.push_back({name, tensor, version_of(tensor)});
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
    const std::int64_t version = version_of(weight.tensor);
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
