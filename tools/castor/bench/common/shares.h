// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace castor::bench {

/// What one run moved, in which time, at which cost.
struct Sample {
  std::uint64_t n_bytes = 0;
  double seconds = 0;
  double cpu_s = 0;  ///< user and system time of all threads, the kernel's workers for io_uring included

  double gb_per_s() const { return seconds > 0 ? static_cast<double>(n_bytes) / seconds / 1e9 : 0; }
  double cpu_s_per_gib() const;
};

/// One round of the alternation: the ceiling, Castor, and the ceiling once more.
struct Round {
  Sample ours;
  std::optional<Sample> ceiling;  ///< empty where there is nothing to hold against
  std::optional<Sample> ceiling_again;
};

/// The middle one; the mean of the two in the middle; 0 of none.
double median(std::vector<double> values);

/// What the rounds of one case say together. Shares are of one round each, so that what the drive does in between is in
/// both figures of a quotient.
struct Shares {
  double ours = 0;  ///< median GB/s
  double ours_cpu_s_per_gib = 0;
  std::optional<double> ceiling;  ///< median GB/s; empty, as all below, without a ceiling
  std::optional<double> ceiling_cpu_s_per_gib;
  std::optional<double> share;  ///< median of ours ÷ ceiling
  std::optional<double> share_min;
  std::optional<double> share_max;
  std::optional<double> ceiling_ratio;  ///< median of the second ceiling ÷ the first: what the drive's own changes do

  /// A share that cannot be: the ceiling was measured badly.
  bool above_ceiling() const { return share.value_or(0) > 1.03; }
  /// The share is at least `wanted` × the ceiling's share of itself, and one that can be believed.
  bool reaches(double wanted) const;
};

Shares summarize(const std::vector<Round>& rounds);

}  // namespace castor::bench
