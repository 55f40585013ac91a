// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include <castor/rules/grad_norm.h>

/// The parts of the norm that host and GPU share.
namespace castor::kernels {

/// Exact: 24 bits squared are 48, and the smallest subnormal squared is 2^-298.
constexpr double square(float value) { return static_cast<double>(value) * static_cast<double>(value); }

/// `sum`, or the only NaN that is ever returned: processors disagree on the bits of the NaNs they make.
constexpr double canonical_sum(double sum) {
  return sum == sum ? sum : std::bit_cast<double>(std::uint64_t{0x7ff8000000000000});
}

/// Nodes of kNormFan over `n` children.
constexpr std::uint64_t n_norm_nodes(std::uint64_t n) { return (n + kNormFan - 1) / kNormFan; }

}  // namespace castor::kernels
