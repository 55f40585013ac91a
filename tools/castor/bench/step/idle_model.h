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

  const castor_host_v1& table() const override { return table_; }
  std::string take_error() override { return std::move(error_); }

  /// One forward and one backward pass and a step of AdamW. Errors: those of `strategy`.
  Result<void> step(Strategy& strategy);
  std::uint64_t n_params() const { return n_params_; }

 private:
  struct Param {
    std::string name;
    std::int64_t numel = 0;
  };
  struct Unit {
    std::string name;
    std::vector<std::uint32_t> params;
  };

  void fill_table();
  Result<void> play(const StepCall& call, Strategy& strategy, const castor_step_args& args);
  DLManagedTensor* gradient(std::uint32_t param);

  const Stopped stopped_;
  castor_host_v1 table_ = {};
  std::vector<Param> params_;
  std::vector<Unit> units_;
  const StepScript script_;
  std::vector<std::uint16_t> gradient_;  ///< as long as the longest parameter
  std::uint64_t n_params_ = 0;
  std::string error_;
};

}  // namespace castor::bench
