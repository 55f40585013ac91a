// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/plugins/booster.h>
#include <castor/plugins/strategy.h>

#include <castor/optimizer/step_script.h>

#include "bench/common/stopped.h"
#include "forecast/shapes/model_shapes.h"

namespace castor::bench {

/// A model of the given shape, in bf16 on the CPU, that computes nothing: its units run in order, and every gradient
/// holds the same small number.
class IdleModel final : public ModelHost {
 public:
  IdleModel(const shapes::Model& shape, Stopped stopped);
  IdleModel(const IdleModel&) = delete;
  IdleModel& operator=(const IdleModel&) = delete;

  std::uint32_t n_units() override { return static_cast<std::uint32_t>(units_.size()); }
  std::uint32_t n_params() override { return static_cast<std::uint32_t>(params_.size()); }
  Result<castor_unit_info> unit_info(std::uint32_t unit) override;
  Result<castor_param_info> param_info(std::uint32_t param) override;
  Result<void> first_values(const castor_values& values) override;
  DLDevice device() override { return {kDLCPU, 0}; }
  std::int32_t interrupted() override { return stopped_() ? 1 : 0; }
  Result<void> bind(std::uint32_t, void*) override { return {}; }
  Result<void> unbind(std::uint32_t, const char*) override { return {}; }

  /// One forward and one backward pass and a step of AdamW. Errors: those of `strategy`.
  Result<void> step(Strategy& strategy);
  /// The elements of all parameters.
  std::uint64_t n_elements() const { return n_elements_; }

 private:
  struct Param {
    std::string name;
    std::int64_t numel = 0;
  };
  struct Unit {
    std::string name;
    std::vector<std::uint32_t> params;
  };

  Result<void> play(const StepCall& call, Strategy& strategy, const castor_step_args& args);
  DLManagedTensor* gradient(std::uint32_t param);

  const Stopped stopped_;
  std::vector<Param> params_;
  std::vector<Unit> units_;
  const StepScript script_;
  std::vector<std::uint16_t> gradient_;  ///< as long as the longest parameter
  std::uint64_t n_elements_ = 0;
};

}  // namespace castor::bench
