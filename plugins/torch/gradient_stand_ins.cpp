// SPDX-License-Identifier: Apache-2.0
#include "gradient_stand_ins.h"

#include "parameter_storage.h"

namespace castor {

void GradientStandIns::show() {
  for (std::size_t id = 0; !message_.empty() && id < handed_over_.size(); ++id) {
    if (!handed_over_[id]) continue;
    const ParamEntry& param = params_[id];
    param.tensor.mutable_grad() =
        inaccessible_like(param.tensor, "the gradient of parameter " + param.name + " " + message_);
  }
  are_shown_ = true;
}

void GradientStandIns::hide() {
  for (std::size_t id = 0; id < handed_over_.size(); ++id) {
    const at::Tensor& param = params_[id].tensor;
    if (handed_over_[id] && param.grad().defined() && !has_memory(storage_of(param.grad())))
      param.mutable_grad().reset();
  }
  are_shown_ = false;
}

Result<void> GradientStandIns::check() const {
  for (std::size_t id = 0; !message_.empty() && id < handed_over_.size(); ++id) {
    const ParamEntry& param = params_[id];
    const bool is_set = param.tensor.grad().defined() && has_memory(storage_of(param.tensor.grad()));
    const bool is_removed = are_shown_ && handed_over_[id] && !param.tensor.grad().defined();
    if (is_set || is_removed)
      return Error{ErrorKind::usage, std::string("parameter.grad was ") + (is_set ? "set" : "removed") +
                                         " by the program; the gradient of parameter " + param.name + " " + message_};
  }
  return {};
}

std::vector<std::uint32_t> GradientStandIns::forget() {
  hide();
  std::vector<std::uint32_t> ids;
  for (std::uint32_t id = 0; id < handed_over_.size(); ++id)
    if (handed_over_[id]) ids.push_back(id);
  handed_over_.assign(handed_over_.size(), false);
  return ids;
}

}  // namespace castor
