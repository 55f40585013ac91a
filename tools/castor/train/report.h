// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/tier.h>
#include <castor/training/param_groups.h>
#include <castor/training/run_state.h>
#include <castor/training/run_stats.h>

namespace castor::train {

/// The saves of a run, all together.
struct Saves {
  std::uint64_t n = 0;
  SavedBytes bytes;
  std::array<std::uint64_t, kNLinks> moved_bytes{};  ///< between the tiers, during the saves
  double wait_seconds = 0;

  /// Adds one save, with the strategy's counters before and after it.
  void add(const SavedBytes& saved, const RunStats& before, const RunStats& after);
  /// `counters` without the bytes and waits of the saves: those of the steps alone.
  RunStats left_of(RunStats counters) const;
};

/// The measurements of a run so far; filled step by step, so that a failed run keeps those before the failure.
struct TrainRecord {
  std::uint64_t n_params = 0;
  std::vector<GroupSummary> groups;
  std::int64_t first_step = 0;  ///< steps that an earlier run had completed, from the checkpoint that this one
                                ///< continues
  std::int64_t tokens_per_step = 0;
  std::vector<double> losses;  ///< one per step that ended
  std::vector<double> lrs;     ///< one per entry of `losses`: the learning rate, also of skipped steps
  std::vector<double> step_s;  ///< one per entry of `losses`
  /// One per entry of `losses` if the norm is taken, to clip by it or because the loss is scaled, otherwise empty: the
  /// norm of the unscaled gradients before clipping; not finite if the step was skipped.
  std::vector<double> grad_norms;
  std::uint64_t n_clipped = 0;  ///< steps whose norm was above the clipping norm
  std::uint64_t n_skipped = 0;  ///< steps without an update, because their gradients held inf or nan
  RunStats warm;                ///< after the steps left out
  RunStats last;                ///< after the last step
  Saves saves;                  ///< their bytes do not count as the steps'
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t drive_bytes = 0;  ///< total capacity of the drives under the NVMe tier; 0 = no such tier, or unknown
  std::string weights_digest;

  /// Takes the strategy's counters after one more step. Keeps the last bound while the strategy knows none, before its
  /// next steps are planned.
  void note(const RunStats& now);

  /// Completed steps, including those before the checkpoint that the run continues.
  std::int64_t n_steps() const { return first_step + static_cast<std::int64_t>(losses.size()); }
};

/// Number of warm-up steps at the start that the figures leave out: 2 of more than 4, otherwise none.
constexpr std::int64_t n_left_out(std::int64_t n_steps) { return n_steps > 4 ? 2 : 0; }

/// Seconds of the counted steps. The median of an even number is the mean of the middle two.
struct StepTimes {
  double median = 0, min = 0, max = 0, mean = 0;
  std::int64_t n_left_out = 0;
};
StepTimes step_times(const std::vector<double>& step_s);

/// Bytes over each link per counted step.
std::array<double, kNLinks> moved_bytes_per_step(const TrainRecord& record);

/// Bytes per second of each link, if measured.
using Rates = std::array<std::optional<double>, kNLinks>;

/// The strategy's own bound, from measured times of compute, updates beside it and transfers. Without one: no step is
/// shorter than its compute (the median step less the training thread's waits for data and its updates), nor than the
/// bytes of any one link at that link's rate.
Bound bound_of(const TrainRecord& record, const Rates& rates);

/// The wear of the NVMe tier's drives if such steps, with as many saves, ran day and night.
struct Wear {
  double bytes_per_day = 0;
  std::optional<double> drive_writes_per_day;  ///< if the capacity of the drives is known
};
/// Nothing if neither steps nor saves wrote to the drives.
std::optional<Wear> wear_of(const TrainRecord& record);

/// `value` with 9 significant digits: enough to tell any two fp32 apart.
double nine_digits(double value);
/// One number per step, rounded by nine_digits; null if it is not finite.
nlohmann::json numbers_json(const std::vector<double>& of_steps);

/// The JSON of `castor train --json`. Scripts rely on it: fields may be added, not renamed.
nlohmann::json report_json(const TrainRecord& record, const Rates& rates);
/// The table at the end, for people.
std::string report_text(const TrainRecord& record, const Rates& rates);

}  // namespace castor::train
