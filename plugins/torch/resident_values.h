// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/registered_id.h>
#include <castor/memory/dtype.h>
#include <castor/plugins/strategy_parts.h>

#include "torch_host.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace castor {

/// The resident run's state of one parameter, all on the device.
struct ResidentParam {
  at::Tensor tensor;                       ///< the model's
  at::Tensor memory;                       ///< bytes that the model's tensor is bound to
  at::Tensor master, exp_avg, exp_avg_sq;  ///< fp32, the moments as StateFormat says, and only where it is trained
  /// The sum since the last step: of the parameter's dtype, or in fp32 of several; undefined where there was none.
  at::Tensor grad;
  std::uint64_t n_updates = 0;
  RegisteredId registered{};  ///< only where it has elements
};

/// The dtype of a tensor of the resident run.
DType dtype_of(const at::Tensor& tensor);
/// `n` fp32 values rounded to `type` as updates round, on the CPU.
at::Tensor rounded(const float* values, std::int64_t n, at::ScalarType type);

/// Reads and writes the values of the resident run. Every parameter is bound, and up to date, all the time.
class ResidentValues final : public ValueCalls {
 public:
  /// Borrowed.
  ResidentValues(const TorchHost& host, std::vector<ResidentParam>& params) : host_(host), params_(params) {}

  Result<void> read_masters(const castor_values& values) override;
  Result<void> read_state(castor_param_state& state) override;
  Result<void> write_state(const castor_param_state& state) override;
  Result<void> read_gradient(const castor_values& values) override;
  Result<void> write_gradient(const castor_values& values) override;
  Result<void> acquire(const castor_access& access) override;
  Result<void> release(const castor_access& access) override;

 private:
  Result<castor_values> gradient_values(const castor_values& wanted, bool gets_one) const;
  Result<ResidentParam*> param_of(const castor_param_state& state);

  const TorchHost& host_;
  std::vector<ResidentParam>& params_;
  OpenAccesses open_;
};

}  // namespace castor
