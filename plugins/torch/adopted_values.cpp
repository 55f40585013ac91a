// SPDX-License-Identifier: Apache-2.0
#include "adopted_values.h"

#include <castor/plugins/torch/errors.h>
#include "parameter_storage.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

namespace castor {
namespace {

Result<void> copy_values(const ParamEntry& param, void* out, std::uint64_t first, std::uint64_t n,
                         at::ScalarType dtype) {
  if (n == 0) return {};
  if (param.was_bound)
    return Error{ErrorKind::usage, "parameter " + param.name +
                                       " was bound to other memory, which freed its first values; make the model anew "
                                       "for another strategy"};
  return guard([&] {
    const at::NoGradGuard no_grad;
    const auto length = static_cast<std::int64_t>(n);
    const at::Tensor& from = param.first_values.defined() ? param.first_values : param.tensor;
    const at::Tensor values = in_storage_order(from).narrow(0, static_cast<std::int64_t>(first), length);
    at::from_blob(out, {length}, dtype).copy_(values);
  });
}

}  // namespace

Result<void> read_values(const ParamEntry& param, std::span<float> out, std::uint64_t first) {
  return copy_values(param, out.data(), first, out.size(), at::kFloat);
}

Result<void> read_own_values(const ParamEntry& param, void* out, std::uint64_t first, std::uint64_t n) {
  return copy_values(param, out, first, n, param.tensor.scalar_type());
}

}  // namespace castor
