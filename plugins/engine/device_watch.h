// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>
#include <castor/memory/mem_stats_collector.h>
#include <castor/plan/access_trace.h>
#include <castor/plugins/model_host.h>

namespace castor {

/// What a DeviceWatch measures beside the bytes that are held now.
enum class WatchState : std::uint8_t {
  off,         ///< nothing: the device is the host
  warming_up,  ///< the periods of the first step
  comparing,   ///< the uses of units in the step after, to compare them with those of the first
  done,        ///< nothing any more
};
inline constexpr std::size_t kNWatchStates = 4;

/// The end of a step.
enum class WatchEvent : std::uint8_t {
  ended,      ///< it shows what a step needs
  broke_off,  ///< it does not, since it updated nothing
};
inline constexpr std::size_t kNWatchEvents = 2;

/// The state that follows `state` at `event`.
constexpr WatchState next_state(WatchState state, WatchEvent event) {
  using enum WatchState;
  constexpr std::array<std::array<WatchState, kNWatchEvents>, kNWatchStates> table = {{
      // ended,    broke_off
      {off, off},               // off
      {comparing, warming_up},  // warming_up
      {done, comparing},        // comparing
      {done, done},             // done
  }};
  return table[static_cast<std::size_t>(state)][static_cast<std::size_t>(event)];
}

/// Watches the bytes that the device's allocator holds now and held at most, and from the first step that updates (the
/// warm-up) measures the bytes beside chunks (non-model data).
///
/// The warm-up is divided into periods: one for each use of a unit, from before its chunks move until the next period,
/// and one for each time between units. Each is charged with the allocator's peak less the chunks that it computes
/// with. Evaluation before the first step counts like the step itself. Libraries take workspaces at their first use,
/// which may be later than periods that need the memory from then on: where uses of units in the step after begin with
/// more bytes beside chunks than in the warm-up, the growth is added.
///
/// Where the device is the host no counter is read: the device tier holds chunks alone.
class DeviceWatch {
 public:
  /// Both are borrowed; `chunks` counts the bytes of chunks from the device's allocator, `own_bytes` those that the
  /// device holds for chunks beside it.
  DeviceWatch(
      ModelHost& host, const Budget& chunks, bool on_gpu,
      std::function<std::uint64_t()> own_bytes = [] { return std::uint64_t{0}; })
      : host_(host),
        chunks_(chunks),
        on_gpu_(on_gpu),
        own_bytes_(std::move(own_bytes)),
        state_(on_gpu ? WatchState::warming_up : WatchState::off) {}

  /// Reads the allocator's counters.
  void look();
  /// Records the allocator's peak so far, and has it count from now on: after the allocator has given back memory that
  /// chunks may take. A period of the warm-up ends.
  void forget_allocators_peak();
  /// Called before a unit is entered and its chunks move: looks, and ends the period before.
  void begin_unit(Moment moment);
  /// Called when the chunks that the unit computes with are on the device.
  void chunks_arrived();
  /// Called when the work of units ends (after backward, before the optimizer's step): looks, and ends the period
  /// before.
  void begin_rest() { begin_period(); }
  /// Looks. The first call ends the warm-up, the second the step that is compared with it.
  void end_step() { take(WatchEvent::ended); }
  /// Looks. A step ends that counts for neither: the warm-up goes on with the next one, or the comparison begins anew.
  void break_off() { take(WatchEvent::broke_off); }

  /// What gradients on their way to the host must leave free before a use of a unit: the bytes by which it would exceed
  /// the peak of the warm-up beside chunks, if it takes as much more as it took there. They pile up where the passes
  /// have become faster since, because weights stay on the device; 0 until the warm-up ends.
  std::uint64_t excess_bytes(Moment moment) const;

  /// At the last look: on a GPU the bytes that the allocator has reserved and those beside it, else those of chunks.
  std::uint64_t held_bytes() const { return on_gpu_ ? now_.reserved + own_bytes_() : chunks_.used_bytes(); }
  std::uint64_t reserved_peak_bytes() const { return reserved_peak_bytes_; }
  /// The part of the reserved peak that no tensor needed at the allocated peak: fragments and rounding.
  std::uint64_t allocator_bytes() const { return saturating_sub(reserved_peak_bytes_, allocated_peak_bytes_); }
  /// The peak of bytes beside chunks in the warm-up; 0 until its end.
  std::uint64_t non_model_peak_bytes() const { return warm_up_.max_non_model_peak_bytes(); }
  /// In the warm-up: of its periods that have ended.
  std::uint64_t non_model_peak_so_far_bytes() const { return collector_.peak_so_far_bytes(); }
  /// The peak of bytes beside chunks from each moment of `iteration` to the next; unknown where the warm-up did not end
  /// with these uses of units. The optimizer's step is one period, which all moments of norm and update share.
  std::vector<std::optional<std::uint64_t>> non_model_bytes(const AccessTrace& iteration) const;

 private:
  /// A use of a unit in the warm-up or in the step after.
  struct UnitUse {
    Moment moment;
    MomentIndex period = 0;          ///< of the warm-up
    std::uint64_t beside_bytes = 0;  ///< held beside chunks when it began
  };

  bool in(WatchState state) const { return state_ == state; }
  void take(WatchEvent event);
  void begin_period();
  MomentIndex end_of(const UnitUse& use) const;
  void measure_uses();
  void add_growth();
  std::uint64_t beside_bytes() const { return saturating_sub(now_.allocated, chunks_.used_bytes()); }
  std::uint64_t non_model_bytes(MomentIndex begin, MomentIndex end) const;

  ModelHost& host_;
  const Budget& chunks_;
  const bool on_gpu_;
  const std::function<std::uint64_t()> own_bytes_;
  WatchState state_;
  castor_device_memory now_{};
  std::uint64_t reserved_peak_bytes_ = 0, allocated_peak_bytes_ = 0;
  MomentIndex n_periods_ = 0;  ///< of the warm-up so far
  std::vector<UnitUse> uses_;  ///< of the warm-up, in their order
  std::vector<UnitUse> next_;  ///< of the step after
  MemStatsCollector collector_;
  MemStats warm_up_;
  std::map<std::pair<MomentKind, std::uint32_t>, std::uint64_t> taken_bytes_;  ///< by a use, at most, in the warm-up
};

}  // namespace castor
