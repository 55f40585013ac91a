// SPDX-License-Identifier: Apache-2.0
#include "device_watch.h"

#include <algorithm>
#include <utility>

namespace castor {
namespace {

/// The most periods of a warm-up. After more (evaluation without a step) it begins anew.
constexpr MomentIndex kMostPeriods = 1U << 18;

}  // namespace

void DeviceWatch::look() {
  if (!on_gpu_) return;
  const auto now = host_.device_memory()->memory();
  if (!now.ok()) return;
  now_ = *now;
  reserved_peak_bytes_ = std::max(reserved_peak_bytes_, now_.reserved_peak + own_bytes_());
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, now_.allocated_peak + own_bytes_());
}

void DeviceWatch::forget_allocators_peak() {
  n_periods_ == 0 ? look() : begin_period();
  if (on_gpu_) host_.device_memory()->reset_peak();
}

void DeviceWatch::begin_unit(Moment moment) {
  begin_period();
  if (!in(WatchState::warming_up) && !in(WatchState::comparing)) return;
  if (in(WatchState::warming_up))
    uses_.push_back({moment, n_periods_ - 1, beside_bytes()});
  else if (next_.size() < uses_.size())
    next_.push_back({moment, 0, beside_bytes()});
}

void DeviceWatch::chunks_arrived() {
  if (in(WatchState::warming_up)) collector_.set_model_bytes(chunks_.used_bytes());
}

void DeviceWatch::take(WatchEvent event) {
  look();
  const WatchState was = std::exchange(state_, next_state(state_, event));
  if (was == WatchState::warming_up && in(WatchState::comparing)) {
    warm_up_ = collector_.finish(now_.allocated_peak);
    measure_uses();
  }
  if (was == WatchState::comparing && in(WatchState::done)) add_growth();
  if (event == WatchEvent::broke_off) next_.clear();
}

/// The first period after `use`, one of uses_.
MomentIndex DeviceWatch::end_of(const UnitUse& use) const {
  return &use == &uses_.back() ? use.period + 1 : (&use + 1)->period;
}

void DeviceWatch::measure_uses() {
  for (const UnitUse& use : uses_) {
    const std::uint64_t peak_bytes = non_model_bytes(use.period, end_of(use));
    std::uint64_t& taken_bytes = taken_bytes_[{use.moment.kind, use.moment.id}];
    taken_bytes = std::max(taken_bytes, saturating_sub(peak_bytes, use.beside_bytes));
  }
}

std::uint64_t DeviceWatch::excess_bytes(Moment moment) const {
  const auto found = taken_bytes_.find({moment.kind, moment.id});
  if (found == taken_bytes_.end()) return 0;
  return saturating_sub(beside_bytes() + found->second, non_model_peak_bytes());
}

/// Memory that is allocated once and kept (a library workspace) shows in every later use, so the growth at a use is the
/// minimum over the uses so far. Stops at the first use that differs from the warm-up's last uses.
void DeviceWatch::add_growth() {
  std::vector<PeriodStats> periods = warm_up_.periods();
  std::uint64_t grown_bytes = Budget::kUnlimited;
  auto use = uses_.end() - static_cast<std::ptrdiff_t>(next_.size());
  for (auto next = next_.begin(); next != next_.end() && next->moment == use->moment; ++next, ++use) {
    grown_bytes = std::min(grown_bytes, saturating_sub(next->beside_bytes, use->beside_bytes));
    for (auto i = use->period; i < end_of(*use); ++i) periods[i].non_model_peak_bytes += grown_bytes;
  }
  warm_up_ = MemStats(std::move(periods));
}

/// Peaks of single periods are needed, and the allocator's peak is reset, during the warm-up alone.
void DeviceWatch::begin_period() {
  look();
  if (!in(WatchState::warming_up)) return;
  if (n_periods_ == kMostPeriods) {
    collector_.discard();
    uses_.clear();
    n_periods_ = 0;
  }
  collector_.begin_period(n_periods_++, now_.allocated_peak, chunks_.used_bytes());
  host_.device_memory()->reset_peak();
}

std::vector<std::optional<std::uint64_t>> DeviceWatch::non_model_bytes(const AccessTrace& iteration) const {
  const std::vector<std::optional<std::uint64_t>> unknown(iteration.n_moments());
  if (warm_up_.periods().empty()) return unknown;
  auto found = unknown;
  auto use = uses_.rbegin();
  MomentIndex end = n_periods_ - 1;  // where the optimizer's step begins
  for (std::uint64_t m = iteration.n_moments(); m-- > 0;) {
    const Moment& moment = iteration.moment(m);
    if (use == uses_.rbegin() && !of_unit(moment.kind)) {
      found[m] = non_model_bytes(n_periods_ - 1, n_periods_);
      continue;
    }
    if (use == uses_.rend()) return unknown;
    found[m] = non_model_bytes(use->period, end);
    if (!of_unit(moment.kind)) continue;  // an update between two units of the backward pass
    if (use->moment != moment) return unknown;
    end = (use++)->period;
  }
  return found;
}

/// The maximum over the periods from `begin` to before `end`.
std::uint64_t DeviceWatch::non_model_bytes(MomentIndex begin, MomentIndex end) const {
  std::uint64_t most = 0;
  for (; begin < end; ++begin) most = std::max(most, warm_up_.non_model_peak_bytes(begin));
  return most;
}

}  // namespace castor
