// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/ids.h>
#include <castor/memory/buffer.h>
#include <castor/memory/device.h>
#include <castor/rules/grad_norm.h>
#include <castor/rules/registered_id.h>
#include <castor/rules/state_format.h>
#include <castor/rules/step_options.h>
#include <castor/rules/update_rule.h>
#include <castor/plugins/strategy_parts.h>
#include "adapter_core.h"
#include "resident_values.h"

#include <memory>
#include <vector>

namespace castor {

/// See make_resident_strategy (torch_adapter.h).
class ResidentStrategy final : public Strategy {
 public:
  ResidentStrategy(AdapterCore& adapter, std::unique_ptr<Device> device, UpdateKernels kernels,
                   std::unique_ptr<GradNormKernel> norm, const StateFormat& format);
  ~ResidentStrategy() override;

  /// Materialises and initialises every parameter. Errors: does_not_fit.
  Result<void> place();

  ValueCalls& values() override { return values_; }

  Result<void> gradient(std::uint32_t param, DLManagedTensor* grad) override;
  Result<void> end_of_backward() override;
  Result<std::uint64_t> begin_step(const castor_step_args& args) override;
  Result<castor_step_result> step_result(std::uint64_t ticket) override;
  Result<void> discard_gradients() override;
  Result<double> measure_norm() override;
  Result<castor_stats> stats() override;
  Result<void> write_trace(const char* path) override;

 private:
  void check_host() const;
  std::uint64_t bytes_with_states(const at::Tensor& param) const;
  void place_param(std::uint32_t id);
  void initialise(ResidentParam& param, const at::Tensor& values);
  Result<StepScale> scale_of_step(const StepOptionsBy<ParamId>& options);
  Result<TrustRatios*> trust_ratios();
  Result<void> measure_trust(const ResidentParam& param, const UpdateOptions& options, double grad_scale);
  Result<void> update(ResidentParam& param, const StepOptionsBy<ParamId>& options, double grad_scale);
  std::uint64_t held_bytes() const;

  AdapterCore& adapter_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
  const UpdateKernels kernels_;
  const std::unique_ptr<GradNormKernel> norm_;
  const StateFormat format_;
  std::vector<ResidentParam> params_;
  ResidentValues values_;
  std::unique_ptr<TrustRatios> trust_;  // made by the first step that needs ratios
  Buffer sums_;                         // a double per parameter, to which the device writes its norm
  std::uint64_t peak_bytes_ = 0;        // of held_bytes()
  double update_seconds_ = 0;
  StepTickets tickets_;
};

}  // namespace castor
