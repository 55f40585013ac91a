// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/schedule/planner.h>

#include "engine_rooms.h"
#include "next_placement.h"
#include "placer.h"

namespace castor {

/// Tells the user how much host memory the speculative updates of `placement` take, if any. `when`: in a clause.
void tell_speculation(const EngineRooms& rooms, const StatePlacement& placement, const std::string& when = "");

/// The progress of host memory for speculative updates.
enum class RoomStage : std::uint8_t {
  unasked,    ///< no step has come that wants a norm
  waiting,    ///< states that are at home on the device still take room on the host
  taking,     ///< the memory is being taken and pinned
  taken,      ///< all of it is there; no step has come whose updates would be speculative
  preparing,  ///< the placement that speculates is being rehearsed and planned
  over,       ///< it is in force, or the memory could not be had
};

/// Takes the host memory of speculative updates beside the steps, where it is to be pinned: that takes 0.4 s per GiB.
/// Steps go on without such updates, and the placement with them is adopted once the memory is there.
///
/// Threads: one at a time.
class SpeculationRoom {
 public:
  /// Borrowed. Without a pinner in the rooms there is nothing to do: placements speculate from the start.
  SpeculationRoom(EngineRooms& rooms, Placer& placer);
  /// Stops taking memory.
  ~SpeculationRoom();

  /// Called when a step has ended: takes the next stage, and waits for no more than Machine::pin_patience. `wants_norm`:
  /// of the step. `may_begin`: no other placement is being tried. Errors: those of NextPlacement::advance.
  [[nodiscard]] Result<void> after_step(bool wants_norm, bool may_begin);
  /// True while the memory is being taken or the placement prepared, so that no other placement is to be tried.
  bool pending() const {
    return stage_ == RoomStage::waiting || stage_ == RoomStage::taking || stage_ == RoomStage::preparing ||
           may_prepare();
  }

 private:
  void begin();
  bool homes_reached() const;
  void ask();
  bool place();
  bool may_prepare() const;
  std::vector<std::uint64_t> block_sizes() const;
  void check_taken();
  Result<void> prepare();
  Result<void> adopt();
  void give_up(const std::string& reason);
  void drop_memory();
  void end();

  EngineRooms& rooms_;
  Placer& placer_;
  RoomStage stage_;
  int n_waited_ = 0;                ///< steps in RoomStage::waiting
  StatePlacement placement_;        ///< with speculative updates
  std::uint64_t wanted_bytes_ = 0;  ///< of the blocks
  std::unique_ptr<Draft<Result<void>>> taking_;
  std::chrono::nanoseconds patience_;  ///< that is left for the memory
  // Owners: this and the task.
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);
  NextPlacement next_;
};

}  // namespace castor
