// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <castor/engine/engine_options.h>
#include <castor/plugins/strategy.h>

#include "fake_model_host.h"

namespace castor::test {

/// A row of equal units with one parameter each, and steps that hand in the same gradients in every run. The calls of a
/// step come one by one, so that a test can repeat one that has failed.
class SmallTraining {
 public:
  struct Shape {
    std::uint32_t n_units = 4;
    std::int64_t numel = 4096;  ///< of each parameter, in bf16
    double max_norm = 0;
  };
  struct Call {
    std::string name;  ///< `before_forward 2`
    std::function<Result<void>()> make;
  };

  SmallTraining() : SmallTraining(Shape{}) {}
  explicit SmallTraining(const Shape& shape) : shape_(shape) {}

  std::uint64_t unit_bytes() const { return static_cast<std::uint64_t>(shape_.numel) * 2; }
  std::uint64_t payload_bytes() const { return shape_.n_units * unit_bytes(); }
  /// Of one unit, and of a master in 16 bits beside two moments in fp32.
  std::uint64_t unit_state_bytes() const { return static_cast<std::uint64_t>(shape_.numel) * 10; }
  /// Without limits, with a chunk for each parameter.
  EngineOptions options() const;
  std::unique_ptr<FakeModelHost> make_host(DLDevice device = {kDLCPU, 0}) const;

  /// `computes` is called while a unit's parameters are bound.
  std::vector<Call> calls(Strategy& strategy, FakeModelHost& host, std::uint32_t step,
                          const std::function<void(std::uint32_t unit)>& computes = nullptr) const;
  /// Makes the calls of steps `first` to before `end`. Errors: the first of a call.
  Result<void> run(Strategy& strategy, FakeModelHost& host, std::uint32_t first, std::uint32_t end,
                   const std::function<void(std::uint32_t unit)>& computes = nullptr) const;
  /// Makes the calls of `step` but for its announcement and its end: those of a micro-batch. Errors: as run.
  Result<void> run_micro_batch(Strategy& strategy, FakeModelHost& host, std::uint32_t step,
                               const std::function<void(std::uint32_t unit)>& computes = nullptr) const;
  Result<std::vector<std::vector<float>>> masters(Strategy& strategy) const;
  /// The masters after `n_steps` on an engine of the host without limits.
  std::vector<std::vector<float>> expected(std::uint32_t n_steps) const;

  DLManagedTensor* make_gradient(FakeModelHost& host, std::uint32_t unit, std::uint32_t step) const;
  castor_step_args step_args() const;

 private:
  const Shape shape_;
};

}  // namespace castor::test
