// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine_rooms.h"
#include "placer.h"
#include "stream_trial.h"
#include "thread_trial.h"

namespace castor {

/// Tries settings on a GPU while the training runs, and keeps those with the shortest steps: first the share of the
/// states that is streamed to the device for updates, then the number of threads that update during backward.
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
  /// Called when a step has ended: records its duration, and chooses the settings of the next. Errors: those of
  /// StreamTrial.
  [[nodiscard]] Result<void> after_step();
  /// True while shares are tried.
  bool tries_placements() const { return streams_.pending(); }
  /// True once the times of steps are final and no setting is tried any more.
  bool over() const;

 private:
  void try_threads();

  EngineRooms& rooms_;
  const bool tunes_;
  StreamTrial streams_;
  ThreadTrial threads_;
};

}  // namespace castor
