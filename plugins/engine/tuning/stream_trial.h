// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "engine_rooms.h"
#include "next_placement.h"
#include "placer.h"
#include "recent_steps.h"

namespace castor {

/// The progress of the share of states that is streamed to the device for updates.
enum class StreamStage : std::uint8_t {
  timing,     ///< no share is streamed; an iteration is being measured
  searching,  ///< the planner forecasts iterations with shares
  preparing,  ///< the placement with the share to use next is being rehearsed and planned
  trying,     ///< the share that was found is in use, and its steps are measured
  over,       ///< the share in use stays
};

/// Chooses the share of the states that is streamed to the device for updates: the one that is best by forecast
/// (search_share), unless steps with it turn out longer than without; then none. Steps go on under the share in use until
/// the next one is prepared.
///
/// Threads: one at a time.
class StreamTrial {
 public:
  /// Borrowed. `chooses`: false where the share was stated, or there is none to choose.
  StreamTrial(EngineRooms& rooms, Placer& placer, bool chooses);

  /// Called when a step has ended: takes the next stage. Errors: those of Placer and NextPlacement::advance.
  [[nodiscard]] Result<void> after_step();
  /// True once the share in use stays.
  bool over() const { return stage_ == StreamStage::over; }
  /// True while a share is being searched, prepared or tried.
  bool pending() const { return !over() && stage_ != StreamStage::timing; }
  /// True once the duration of steps with the share in use is known: their times are final, or enough of them followed
  /// the forecast.
  bool knows_step() const;

 private:
  Result<void> begin();
  double modelled_share(const StepPlan& plan) const;
  void search(double modelled, double without_s);
  Result<void> take_found();
  Result<void> prepare(double share);
  Result<void> advance();
  Result<void> judge();

  EngineRooms& rooms_;
  Placer& placer_;
  StreamStage stage_;
  RecentSteps steps_;                                       ///< with the share in use
  double without_s_ = 0;                                    ///< duration of a step without streams
  double next_share_ = 0;                                   ///< under the placement that is being prepared
  bool as_forecast_ = false;                                ///< iterations with the share in use follow their forecast
  std::shared_ptr<const IterationRecord> without_streams_;  // owners: this and drafts
  std::unique_ptr<Draft<double>> found_;                    ///< the best share, by forecast
  NextPlacement next_;
};

}  // namespace castor
