// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace castor {

/// A point between two operators, numbered from 0 in every iteration.
using MomentIndex = std::uint32_t;

/// The most bytes that the device held between two moments. Model data are parameters, gradients and optimizer states;
/// non-model data are activations and workspaces, which Castor can measure but not move.
struct PeriodStats {
  MomentIndex moment = 0;  ///< the moment at which the period begins
  std::uint64_t overall_peak_bytes = 0;
  std::uint64_t model_bytes = 0;
  std::uint64_t non_model_peak_bytes = 0;
};

/// The periods of one iteration.
class MemStats {
 public:
  MemStats() = default;
  /// Requires: `periods` by rising moment.
  explicit MemStats(std::vector<PeriodStats> periods);

  const std::vector<PeriodStats>& periods() const { return periods_; }
  /// Non-model data in the period that `moment` is in: the last that begins at or before it. 0 before the first.
  std::uint64_t non_model_peak_bytes(MomentIndex moment) const;

  /// The largest of each figure over all periods; 0 where there are none.
  std::uint64_t max_overall_peak_bytes() const;
  std::uint64_t max_model_bytes() const;
  std::uint64_t max_non_model_peak_bytes() const { return max_non_model_peak_bytes_; }

 private:
  std::vector<PeriodStats> periods_;
  std::uint64_t max_non_model_peak_bytes_ = 0;
};

/// Computes the peak of non-model data, which no allocator can tell apart by itself, from two readings per period:
/// allocator's peak in the period - model data held while the period computed.
///
/// Pure bookkeeping: the caller reads and resets the allocator's peak counter at each moment, before anything moves (so
/// that the moves of the next unit are not charged to this period), and passes the reading in. Where model data move in
/// the first part of a period, `set_model_bytes` gives the bytes with which the unit then computes. This is the scheme
/// of PatrickStar (Fang et al. 2021) and of Gemini.
///
/// Threads: one.
class MemStatsCollector {
 public:
  /// Ends the open period, whose allocator peak was `last_overall_peak_bytes` (ignored at the first moment of an
  /// iteration), and begins the one at `moment`, with `model_bytes` on the device. Requires: moments rise within an
  /// iteration (ContractViolation).
  void begin_period(MomentIndex moment, std::uint64_t last_overall_peak_bytes, std::uint64_t model_bytes);

  /// Corrects the model data of the open period; the last value counts. Requires: a period is open (ContractViolation).
  void set_model_bytes(std::uint64_t model_bytes);

  /// Ends the last period and returns the iteration; the collector is then ready for the next.
  MemStats finish(std::uint64_t last_overall_peak_bytes);

  /// The largest peak of non-model data in the periods of the iteration under way that have ended.
  std::uint64_t peak_so_far_bytes() const;

  /// Drops the iteration under way: a broken-off warm-up is repeated.
  void discard();

 private:
  void end_period(std::uint64_t overall_peak_bytes);

  std::optional<PeriodStats> open_;
  std::vector<PeriodStats> ended_;
};

}  // namespace castor
