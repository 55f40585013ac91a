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

void WeightVersions::renew(const std::vector<std::uint32_t>& given) {
  count_up(given);
  take(given);
}

void WeightVersions::take(const std::vector<std::uint32_t>& written) {
  for (const std::uint32_t id : written) weights_.at(id).version = version_of(weights_[id].tensor);
}

Result<void> WeightVersions::check() const {
  for (std::uint32_t id = 0; id < weights_.size(); ++id) CASTOR_TRY(check(id));
  return {};
}

Result<void> WeightVersions::check(std::uint32_t id) const {
  const Weight& weight = weights_.at(id);
  if (version_of(weight.tensor) == weight.version) return {};
  return Error{ErrorKind::usage,
               "parameter " + weight.name +
                   " was written in place, which its master has not seen, so the next update would "
                   "undo it; between two steps, of which zero_grad() drops one under way, load its values "
                   "(model.load_state_dict), or write them again within castor.gathered(parameter, write=True)"};
}

}  // namespace castor
