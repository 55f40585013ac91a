// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/plan/access_trace.h>

namespace castor {

/// The mover's link to the iteration under way: it knows when chunks are needed next, and is notified of every access
/// and wait. The Scheduler's IterationFollower is one.
///
/// Threads: those of the mover.
class MoveGuide {
 public:
  virtual ~MoveGuide() = default;

  /// True from the first moment of an iteration to its end.
  virtual bool in_iteration() const = 0;
  /// True while the iteration has made the same accesses as the trace, so that next_use and a plan hold.
  virtual bool on_trace() const = 0;
  /// Moments from now until `chunk` is needed in `tier`; AccessTrace::kNever where that is not known, or never.
  virtual std::uint64_t next_use(ChunkId chunk, Tier tier) const = 0;

  /// Adds a need to the moment under way, beside those that it began with.
  virtual void accessed(const Need& need) = 0;
  /// `n_bytes` of `chunk` are copied from the device's memory to the host in the moment under way, whatever the plan.
  virtual void arriving(ChunkId chunk, std::uint64_t n_bytes) = 0;
  /// The contents of `chunk` were discarded.
  virtual void discarded(ChunkId chunk) = 0;

  /// The training thread waits from here to wait_ends.
  virtual void wait_begins() = 0;
  virtual void wait_ends() = 0;
};

}  // namespace castor
