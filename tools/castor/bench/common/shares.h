// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace castor::bench {

/// The bytes that one run moved, the time and the CPU time it took.
struct Sample {
  std::uint64_t n_bytes = 0;
  double seconds = 0;
  double cpu_s = 0;  ///< user and system time of all threads, the kernel's io_uring workers included

  double gb_per_s() const { return seconds > 0 ? static_cast<double>(n_bytes) / seconds / 1e9 : 0; }
  double cpu_s_per_gib() const;
};

/// One round of the alternation: the ceiling, Castor, and the ceiling once more.
struct Round {
  Sample ours;
  std::optional<Sample> ceiling;  ///< empty if the case has no ceiling
  std::optional<Sample> ceiling_again;
};

/// The middle value, or the mean of the two in the middle; 0 for no values.
double median(std::vector<double> values);

/// The summary of the rounds of one case. Each share is of one round, so that a change of the drive's speed between
/// rounds affects both figures of a quotient.
struct Shares {
  double ours = 0;  ///< median GB/s
  double ours_cpu_s_per_gib = 0;
  std::optional<double> ceiling;  ///< median GB/s; empty, like all members below, without a ceiling
  std::optional<double> ceiling_cpu_s_per_gib;
  std::optional<double> share;  ///< median of ours ÷ ceiling
  std::optional<double> share_min;
  std::optional<double> share_max;
  std::optional<double> ceiling_ratio;  ///< median of the second ceiling ÷ the first: the drive's own change of speed

  /// An impossible share: the ceiling was measured badly.
  bool above_ceiling() const { return share.value_or(0) > 1.03; }
  /// The share is at least `wanted` × `ceiling_ratio`, and not above the ceiling.
  bool reaches(double wanted) const;
};

Shares summarize(const std::vector<Round>& rounds);

}  // namespace castor::bench
