// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "engine_rooms.h"
#include "next_placement.h"
#include "placer.h"
#include "stream_trial.h"
#include "thread_trial.h"

namespace castor {

/// Tries settings on a GPU while the training runs, and keeps those with the shortest steps: first the share of the
/// states that is streamed to the device for updates, then the number of threads that update during backward. Steps go
/// on under the share in use until the next one is prepared.
///
/// Threads: one at a time.
class Tuner {
 public:
  /// Borrowed.
  Tuner(EngineRooms& rooms, Placer& placer);

  /// Called when a backward pass begins: limits the team to the threads on trial.
  void begin_backward() { rooms_.team->limit_threads(threads_.n_threads()); }
  /// Called when the step's updates are queued: lets all threads work.
  void end_updates() { rooms_.team->limit_threads(threads_.all_threads()); }
  /// Called when a step has ended: records its duration, and chooses the settings of the next. Errors: those of Placer.
  [[nodiscard]] Result<void> after_step();
  /// True while shares are tried.
  bool tries_placements() const { return streams_.begun() && (!streams_.over() || next_.preparing()); }
  /// True once the times of steps are final and no setting is tried any more.
  bool over() const;

 private:
  bool tunes() const;
  bool tries_streams() const;
  Result<void> try_streams();
  Result<bool> begin_streams();
  Result<void> prepare(double share);
  Result<void> advance();
  bool knows_share() const;
  double modelled_share() const;
  void try_threads();

  EngineRooms& rooms_;
  Placer& placer_;
  StreamTrial streams_;
  std::shared_ptr<const NextPlacement::Basis> without_streams_;  ///< an iteration before the trial; see NextPlacement
  NextPlacement next_;
  double next_share_ = 0;     ///< under the placement that is being prepared
  bool as_forecast_ = false;  ///< iterations with the share in use follow their forecast
  ThreadTrial threads_;
};

}  // namespace castor
