// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <castor/memory/host_team.h>
#include <castor/rules/grad_norm.h>

namespace castor {

/// Sums of squares of some gradients in host memory, made by a team of threads block by block.
class HostNorm {
 public:
  explicit HostNorm(DType dtype) : work_(std::make_shared<Work>()) { work_->dtype = dtype; }

  /// Adds `n` elements at `grad`; finish() writes the sum of their squares to `*sum`.
  void add(const void* grad, std::uint64_t n, double* sum);
  /// Queues the work to `team`; it begins after the events in `after`.
  void start(HostTeam& team, std::uint32_t urgency, std::vector<Event> after);
  const Event& done() const { return done_; }
  /// Waits, and writes the sums of all gradients that were added. Errors: that with which one of `after` failed.
  Result<void> finish();

 private:
  struct Tensor {
    const void* grad = nullptr;
    std::uint64_t n = 0;
    std::uint64_t first_block = 0;  ///< in Work::blocks
    double* sum = nullptr;
  };
  struct Work {
    DType dtype = DType::f32;
    std::vector<Tensor> tensors;
    std::vector<double> blocks;
  };

  std::shared_ptr<Work> work_;  // owners: this and the job
  Event done_;
};

}  // namespace castor
