// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/timeline.h>
#include <castor/mover/move_guide.h>
#include <castor/mover/planned_moves.h>
#include <castor/mover/wait_limits.h>

namespace castor {

/// The waits of the training thread. During a wait planned moves continue; the time counts as waiting, not as computing
/// of the moment; and a wait that is interrupted or exceeds its limit ends with an error.
///
/// Threads: those of the mover.
class Waits {
 public:
  /// Borrowed.
  struct Parts {
    ChunkManager& chunks;
    PlannedMoves& planned;
    Stream& compute;
    Timeline& timeline;
    WaitLimits limits;
  };

  Waits(const Parts& parts, MoveGuide& guide) : parts_(parts), guide_(&guide) {}

  void guide_by(MoveGuide& guide) { guide_ = &guide; }
  MoveGuide& guide() const { return *guide_; }
  /// The unit under which waits appear in the timeline from now on.
  void set_unit(UnitId unit) { unit_ = unit; }

  /// Waits for the copy of `chunk` in `tier`: the thread for one on the host, the compute stream (which may be the
  /// thread) for one on the device. Planned fetches start meanwhile only if `all_have_room`: every need of the moment
  /// has its memory. Errors: that with which the copy failed; interrupted; io.
  [[nodiscard]] Result<void> for_arrival(ChunkId chunk, Tier tier, bool all_have_room = false);

  /// Waits until a copy has left `tier`; returns the bytes freed, 0 where none is leaving. Planned moves take no room
  /// in `tier` meanwhile. Errors: those of the copies; interrupted; io.
  [[nodiscard]] Result<std::uint64_t> for_leaving(Tier tier);

  /// Waits for everything that was queued on the compute stream. Errors: those of the stream; interrupted; io.
  [[nodiscard]] Result<void> for_compute();

  /// Waits until the host copies of `chunks` have been written to the tier below. Errors: the first that failed;
  /// interrupted; io.
  [[nodiscard]] Result<void> for_write_back(std::span<const ChunkId> chunks);

  /// Waits for `work` of the host, which a drive can hold up, however it ends; `awaited` names it. Does not wait for
  /// work of a device's stream, for which no drive is waited. May be called within another wait, whose limits hold
  /// then. Errors: interrupted; io.
  [[nodiscard]] Result<void> for_host(const Event& work, const std::string& awaited);
  /// The same for work of the host of which `ended_within` says whether it has ended after waiting about as long as its
  /// argument.
  [[nodiscard]] Result<void> until(const std::function<bool(std::chrono::nanoseconds)>& ended_within,
                                   const std::string& awaited);

  double total_seconds() const { return static_cast<double>(total_ns_) * 1e-9; }

 private:
  template <typename Wait>
  auto during(const Wait& wait);
  Result<void> check(const std::string& awaited) const;

  const Parts parts_;
  MoveGuide* guide_;
  UnitId unit_{};
  bool waiting_ = false;
  std::uint64_t start_ns_ = 0;  ///< of the wait under way
  std::uint64_t total_ns_ = 0;
};

}  // namespace castor
