// SPDX-License-Identifier: Apache-2.0
#include "resident_values.h"

#include <castor/plugins/torch/errors.h>
#include <castor/rules/update_arrays.h>
#include "parameter_checks.h"
#include "parameter_storage.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

namespace castor {

DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16: return DType::bf16;
    case at::kHalf: return DType::f16;
    default: return DType::f32;
  }
}

at::Tensor rounded(const float* values, std::int64_t n, at::ScalarType type) {
  const at::Tensor result = at::empty({n}, type);
  round_weights(values, dtype_of(result), result.mutable_data_ptr(), static_cast<std::uint64_t>(n));
  return result;
}

Result<void> ResidentValues::read_masters(const castor_values& wanted) {
  const at::Tensor param = wanted.param < params_.size() ? params_[wanted.param].tensor : at::empty({0});
  CASTOR_ASSIGN(castor_param_state state,
                masters_of(wanted, static_cast<std::uint64_t>(param.numel()), !computes(param)));
  return read_state(state);
}

Result<ResidentParam*> ResidentValues::param_of(const castor_param_state& state) {
  if (state.param < params_.size()) {
    ResidentParam& param = params_[state.param];
    const auto numel = static_cast<std::uint64_t>(param.tensor.numel());
    if (state.first <= numel && state.n <= numel - state.first) return &param;
  }
  return Error{ErrorKind::usage, "there are no values " + std::to_string(state.first) + " to " +
                                     std::to_string(state.first + state.n) + " of parameter " +
                                     std::to_string(state.param)};
}

Result<void> ResidentValues::read_state(castor_param_state& state) {
  CASTOR_ASSIGN(ResidentParam* const param, param_of(state));
  state.n_updates = param->n_updates;
  return guard([&] {
    const auto first = static_cast<std::int64_t>(state.first), n = static_cast<std::int64_t>(state.n);
    const auto read = [&](const at::Tensor& from, float* to) {
      if (to != nullptr && from.defined()) at::from_blob(to, {n}, at::kFloat).copy_(from.narrow(0, first, n));
    };
    read(param->master, state.master);
    read(param->exp_avg, state.exp_avg);
    read(param->exp_avg_sq, state.exp_avg_sq);
    if (state.opaque == nullptr) return;
    at::from_blob(state.opaque, {n}, param->tensor.scalar_type())
        .copy_(in_storage_order(param->tensor).narrow(0, first, n));
  });
}

Result<void> ResidentValues::write_state(const castor_param_state& state) {
  CASTOR_ASSIGN(ResidentParam* const param, param_of(state));
  if (state.n > 0 && (computes(param->tensor) ? state.master == nullptr : state.opaque == nullptr))
    return Error{ErrorKind::usage, "the state of parameter " + std::to_string(state.param) + " has no values"};
  param->n_updates = state.n_updates;
  return guard([&] {
    const at::NoGradGuard no_grad;
    const auto first = static_cast<std::int64_t>(state.first), n = static_cast<std::int64_t>(state.n);
    const auto write = [&](const at::Tensor& to, float* from) {
      if (from != nullptr && to.defined()) to.narrow(0, first, n).copy_(rounded(from, n, to.scalar_type()));
    };
    write(param->master, state.master);
    write(param->exp_avg, state.exp_avg);
    write(param->exp_avg_sq, state.exp_avg_sq);
    const at::Tensor weights = in_storage_order(param->tensor).narrow(0, first, n);
    const at::ScalarType dtype = param->tensor.scalar_type();
    weights.copy_(computes(param->tensor) ? rounded(state.master, n, dtype) : at::from_blob(state.opaque, {n}, dtype));
  });
}

/// The values of a gradient that `wanted` names. `gets_one`: the parameter has a gradient afterwards where all its
/// values are given. Errors: usage, where the parameter is not trained, lacks the values, or has no gradient.
Result<castor_values> ResidentValues::gradient_values(const castor_values& wanted, bool gets_one) const {
  if (wanted.param >= params_.size())
    return Error{ErrorKind::usage, "there is no parameter " + std::to_string(wanted.param)};
  const ResidentParam& param = params_[wanted.param];
  const std::string& name = host_.map().params[wanted.param].name;
  if (!param.tensor.requires_grad())
    return Error{ErrorKind::usage, "parameter " + name + " is frozen, so it has no gradient"};
  const auto numel = static_cast<std::uint64_t>(param.tensor.numel());
  CASTOR_ASSIGN(const castor_values values, fp32_values(wanted, numel, "gradients"));
  if (!param.grad.defined() && !(gets_one && values.n == numel)) return no_gradient(name, numel);
  return values;
}

Result<void> ResidentValues::read_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const castor_values values, gradient_values(wanted, false));
  const ResidentParam& param = params_[wanted.param];
  const auto first = static_cast<std::int64_t>(values.first), n = static_cast<std::int64_t>(values.n);
  return guard(
      [&] { at::from_blob(values.data, {n}, at::kFloat).copy_(in_storage_order(param.grad).narrow(0, first, n)); });
}

/// A gradient with written values is fp32, like a sum of several.
Result<void> ResidentValues::write_gradient(const castor_values& wanted) {
  CASTOR_ASSIGN(const castor_values values, gradient_values(wanted, true));
  ResidentParam& param = params_[wanted.param];
  const auto first = static_cast<std::int64_t>(values.first), n = static_cast<std::int64_t>(values.n);
  return guard([&] {
    const at::NoGradGuard no_grad;
    const at::Tensor& like = param.grad.defined() ? param.grad : param.tensor;
    const at::Tensor sum = at::empty_strided(like.sizes(), like.strides(), like.options().dtype(at::kFloat));
    if (param.grad.defined()) sum.copy_(param.grad);
    in_storage_order(sum).narrow(0, first, n).copy_(at::from_blob(values.data, {n}, at::kFloat));
    param.grad = sum;
  });
}

/// Every parameter is bound, and up to date, all the time.
Result<void> ResidentValues::acquire(const castor_access& access) {
  CASTOR_TRY(OpenAccesses::check(access, params_.size()));
  for (std::uint32_t i = 0; access.mode == CASTOR_WRITE && i < access.n; ++i)
    if (!computes(params_[access.params[i]].tensor))
      return opaque_is_read_only(host_.map().params[access.params[i]].name);
  open_.add(access);
  return {};
}

Result<void> ResidentValues::release(const castor_access& access) {
  CASTOR_TRY(open_.find(access));
  open_.remove(access);
  if (access.mode != CASTOR_WRITE) return {};
  return guard([&] {
    const at::NoGradGuard no_grad;
    for (std::uint32_t i = 0; i < access.n; ++i) {
      ResidentParam& param = params_[access.params[i]];
      param.master.copy_(in_storage_order(param.tensor));
    }
  });
}

}  // namespace castor
