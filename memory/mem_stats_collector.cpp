// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/mem_stats_collector.h>

#include <algorithm>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/memory/result.h>

namespace castor {
namespace {

std::uint64_t largest(const std::vector<PeriodStats>& periods, std::uint64_t PeriodStats::*figure) {
  std::uint64_t most = 0;
  for (const auto& period : periods) most = std::max(most, period.*figure);
  return most;
}

}  // namespace

MemStats::MemStats(std::vector<PeriodStats> periods)
    : periods_(std::move(periods)), max_non_model_peak_bytes_(largest(periods_, &PeriodStats::non_model_peak_bytes)) {}

std::uint64_t MemStats::non_model_peak_bytes(MomentIndex moment) const {
  const auto begins_later = [](MomentIndex at, const PeriodStats& period) { return at < period.moment; };
  const auto next = std::upper_bound(periods_.begin(), periods_.end(), moment, begins_later);
  return next == periods_.begin() ? 0 : std::prev(next)->non_model_peak_bytes;
}

std::uint64_t MemStats::max_overall_peak_bytes() const { return largest(periods_, &PeriodStats::overall_peak_bytes); }
std::uint64_t MemStats::max_model_bytes() const { return largest(periods_, &PeriodStats::model_bytes); }

void MemStatsCollector::begin_period(MomentIndex moment, std::uint64_t last_overall_peak_bytes,
                                     std::uint64_t model_bytes) {
  if (open_ && moment <= open_->moment)
    throw ContractViolation("period " + std::to_string(moment) + " begins after period " +
                            std::to_string(open_->moment));
  end_period(last_overall_peak_bytes);
  open_ = PeriodStats{moment, 0, model_bytes, 0};
}

void MemStatsCollector::set_model_bytes(std::uint64_t model_bytes) {
  if (!open_) throw ContractViolation("model data reported outside any period");
  open_->model_bytes = model_bytes;
}

MemStats MemStatsCollector::finish(std::uint64_t last_overall_peak_bytes) {
  end_period(last_overall_peak_bytes);
  return MemStats(std::exchange(ended_, {}));
}

std::uint64_t MemStatsCollector::peak_so_far_bytes() const { return largest(ended_, &PeriodStats::non_model_peak_bytes); }

void MemStatsCollector::discard() {
  open_.reset();
  ended_.clear();
}

void MemStatsCollector::end_period(std::uint64_t overall_peak_bytes) {
  if (!open_) return;
  open_->overall_peak_bytes = overall_peak_bytes;
  // Model data outside the measured allocator can exceed its peak; then nothing is left for non-model data.
  open_->non_model_peak_bytes = saturating_sub(overall_peak_bytes, open_->model_bytes);
  ended_.push_back(*open_);
  open_.reset();
}

}  // namespace castor
