// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/tier.h>

#include "train/param_groups.h"

namespace castor::train {

/// The links that a step moves bytes over, as JSON spells them.
enum class Link : std::uint8_t { h2d, d2h, nvme_read, nvme_write };
inline constexpr std::size_t kNLinks = 4;
inline constexpr std::array<Link, kNLinks> kLinks = {Link::h2d, Link::d2h, Link::nvme_read, Link::nvme_write};
const char* name(Link link);
constexpr std::size_t index(Link link) { return static_cast<std::size_t>(link); }

/// The lower bound of a step.
struct Bound {
  double seconds = 0;
  std::string by;    ///< `compute`, `host_update`, a link, or `nvme`: the drives, both ways
  double share = 0;  ///< bound / median step: 1 = the step hides everything else
};

/// A strategy's counters at one moment, counted since it began.
struct Counters {
  std::array<std::uint64_t, kNTiers> used_bytes{}, peak_bytes{};
  std::array<std::optional<std::uint64_t>, kNTiers> budget_bytes;
  std::array<std::uint64_t, kNLinks> moved_bytes{};
  double wait_seconds = 0, update_seconds = 0;
  Bound bound;  ///< as the strategy knows it, without its share; 0 where it does not
};

/// What a save took, of what the parameters have come to.
struct SavedBytes {
  std::uint64_t written_bytes = 0;
  std::uint64_t referenced_bytes = 0;  ///< lay in the folders already
};

/// The saves of a run, all together.
struct Saves {
  std::uint64_t n = 0;
  SavedBytes bytes;
  std::array<std::uint64_t, kNLinks> moved_bytes{};  ///< between the tiers
  double wait_seconds = 0;

  /// One more, with the strategy's counters before and after it.
  void add(const SavedBytes& saved, const Counters& before, const Counters& after);
  /// `counters` without what the saves moved and waited for: what the steps did.
  Counters left_of(Counters counters) const;
};

/// What a run has measured so far; filled while it goes on, so that a failure leaves what there was.
struct TrainRecord {
  std::uint64_t n_params = 0;
  std::vector<GroupSummary> groups;
  std::int64_t first_step = 0;  ///< where the run went on from a checkpoint: steps that it had behind it
  std::int64_t tokens_per_step = 0;
  std::vector<double> losses;  ///< one per step that ended
  std::vector<double> lrs;     ///< as many: the learning rate of each, also of those skipped
  std::vector<double> step_s;  ///< as many
  /// As many where the norm is taken, to clip by it or because the loss is scaled, else none: that of the unscaled
  /// gradients before clipping, not finite where the step was skipped.
  std::vector<double> grad_norms;
  std::uint64_t n_clipped = 0;  ///< steps whose norm was above the one to clip to
  std::uint64_t n_skipped = 0;  ///< steps without an update, their gradients held inf or nan
  Counters warm;                ///< after the steps left out
  Counters last;                ///< after the last step
  Saves saves;                  ///< their bytes are none of the steps'
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t drive_bytes =
      0;  ///< that the drives under the NVMe tier hold, all together; 0 = no such tier, or not known
  std::string weights_digest;

  /// The strategy's counters after one more step. A bound that it does not know for now, where its next steps are yet to be
  /// planned, stays what it was.
  void note(const Counters& now);

  /// That have ended, those before the run went on from a checkpoint included.
  std::int64_t n_steps() const { return first_step + static_cast<std::int64_t>(losses.size()); }
};

/// How many steps at the start are warm-up and left out of the figures: 2 of more than 4, else none.
constexpr std::int64_t n_left_out(std::int64_t n_steps) { return n_steps > 4 ? 2 : 0; }

/// Seconds of the steps that count. The median of an even number is the mean of the middle two.
struct StepTimes {
  double median = 0, min = 0, max = 0, mean = 0;
  std::int64_t n_left_out = 0;
};
StepTimes step_times(const std::vector<double>& step_s);

/// Bytes over each link per step that counts.
std::array<double, kNLinks> moved_bytes_per_step(const TrainRecord& record);

/// Bytes per second of each link, where it was measured.
using Rates = std::array<std::optional<double>, kNLinks>;

/// As the strategy knows it: of what computes, what is updated beside that, and what goes over the links, as that was measured.
/// Where it does not: no step is shorter than its compute (the median step less what the training thread waited for data and
/// spent in updates), nor than the bytes of any one link at that link's rate.
Bound bound_of(const TrainRecord& record, const Rates& rates);

/// What the NVMe tier's drives would be worn by, if such steps, with as many saves, went on day and night.
struct Wear {
  double bytes_per_day = 0;
  std::optional<double> drive_writes_per_day;  ///< where it is known what the drives hold
};
/// Nothing where neither step nor save wrote to them.
std::optional<Wear> wear_of(const TrainRecord& record);

/// `value` with 9 significant digits: enough to tell any two fp32 apart.
double nine_digits(double value);
/// One number a step, so rounded; null where it is not finite.
nlohmann::json numbers_json(const std::vector<double>& of_steps);

/// What `castor train --json` prints. Scripts rely on it: fields may be added, not renamed.
nlohmann::json report_json(const TrainRecord& record, const Rates& rates);
/// The table at the end, for people.
std::string report_text(const TrainRecord& record, const Rates& rates);

}  // namespace castor::train
