// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/rules/adam.h>

#include "bench/adam/team.h"

namespace castor::bench {

/// Bytes of memory per parameter: fp32 master and moments, bf16 gradient and weight, and an fp32 gradient for torch.
inline constexpr std::uint64_t kMemoryPerElement = 3 * 4 + 2 * 2 + 4;
/// Bytes that an update moves per parameter: master and moments read and written, the 16-bit gradient read, the 16-bit
/// weight written.
inline constexpr std::uint64_t kBytesPerElement = 28;

/// The arrays of one update on the host, in huge pages if the kernel grants them.
class AdamMemory {
 public:
  /// Fills the arrays with plausible values; each thread of `team` is the first to touch the part that it gets when the
  /// work is cut into equal parts. Errors: does_not_fit.
  static Result<std::unique_ptr<AdamMemory>> make(std::uint64_t n_elements, Team& team);

  UpdateArrays arrays() const;
  float* wide_grad() const { return reinterpret_cast<float*>(wide_grad_.data()); }

 private:
  AdamMemory() = default;
  void fill(std::uint64_t first, std::uint64_t end);

  HostResource pages_;
  std::uint64_t n_elements_ = 0;
  Buffer master_, exp_avg_, exp_avg_sq_, grad_, weight_, wide_grad_;
};

}  // namespace castor::bench
