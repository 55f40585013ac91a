// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/unit.h>

#include "parameter_storage.h"
#include "unit_hooks.h"

#include <ATen/ATen.h>

namespace castor {

at::Tensor Unit::declare(const std::string& name, at::IntArrayRef sizes, const at::TensorOptions& options, Init init) {
  at::Tensor parameter = make_unplaced(sizes, options);
  register_parameter(name, parameter);
  release_storage(storage_of(parameter), "parameter " + name + " is declared but not placed yet");
  declared_.push_back({parameter, init});
  return parameter;
}

void Unit::share(const at::Tensor& parameter) { shared_.push_back(parameter); }

std::shared_ptr<TensorKeeper> Unit::keeper() const { return hooks_ == nullptr ? nullptr : hooks_->keeper(); }

at::Tensor Unit::enter(const at::Tensor& x) {
  hooks_->before_forward(id_);
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return x;
  at::Tensor seen = at::alias(x);  // its gradient is complete when everything inside the unit has been differentiated
  seen.register_hook([hooks = hooks_, id = id_](const at::Tensor&) { hooks->after_backward(id); });
  return seen;
}

at::Tensor Unit::leave(at::Tensor y) {
  if (may_alias(y)) y = y.clone();
  hooks_->after_forward(id_);
  if (at::GradMode::is_enabled() && y.requires_grad())
    y.register_hook([hooks = hooks_, id = id_](const at::Tensor&) { hooks->before_backward(id); });
  return y;
}

bool Unit::may_alias(const at::Tensor& y) const {
  if (y.is_view()) return true;
  for (const Declared& own : declared_)
    if (y.is_alias_of(own.parameter)) return true;
  for (const at::Tensor& other : shared_)
    if (y.is_alias_of(other)) return true;
  return false;
}

}  // namespace castor
