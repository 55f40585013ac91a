// SPDX-License-Identifier: Apache-2.0
#include "adopted_values.h"

#include <castor/plugins/torch/errors.h>
#include "parameter_storage.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

namespace castor {

Result<void> read_values(const ParamEntry& param, std::span<float> out, std::uint64_t first) {
  if (out.empty()) return {};
  if (param.was_bound)
    return Error{ErrorKind::usage, "parameter " + param.name +
                                       " was bound to other memory, which freed its first values; make the model anew "
                                       "for another strategy"};
  return guard([&] {
    const at::NoGradGuard no_grad;
    const auto n = static_cast<std::int64_t>(out.size());
    const at::Tensor values = in_storage_order(param.tensor).narrow(0, static_cast<std::int64_t>(first), n);
    at::from_blob(out.data(), {n}, at::kFloat).copy_(values);
  });
}

}  // namespace castor
