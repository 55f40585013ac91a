// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/rules/adam.h>

#include "bench/adam/team.h"

namespace castor::bench {

/// What a parameter takes: fp32 master and moments, bf16 gradient and weight, and a gradient in fp32 for torch.
inline constexpr std::uint64_t kMemoryPerElement = 3 * 4 + 2 * 2 + 4;
/// What an update moves of it: master and moments both ways, the 16-bit gradient in, the 16-bit weight out.
inline constexpr std::uint64_t kBytesPerElement = 28;

/// The arrays of one update on the host, in huge pages where the kernel gives them.
class AdamMemory {
 public:
  /// Plausible values; each thread of `team` touches the part first that is its own where work is cut into equal parts.
  /// Errors: does_not_fit.
  static Result<std::unique_ptr<AdamMemory>> make(std::uint64_t n_elements, Team& team);

  AdamArrays arrays() const;
  float* wide_grad() const { return reinterpret_cast<float*>(wide_grad_.data()); }

 private:
  AdamMemory() = default;
  void fill(std::uint64_t first, std::uint64_t end);

  HostResource pages_;
  std::uint64_t n_elements_ = 0;
  Buffer master_, exp_avg_, exp_avg_sq_, grad_, weight_, wide_grad_;
};

}  // namespace castor::bench
