// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/strategy_parts.h>

#include "engine_rooms.h"

namespace castor {

/// Weights that the host uses outside of units: from acquire to release their chunks are held on the device, and their
/// parameters are bound.
///
/// Threads: one at a time. Requires: the parameters have values.
class LentWeights {
 public:
  /// Borrowed.
  explicit LentWeights(EngineRooms& rooms) : rooms_(rooms) {}

  /// Gives the parameters their weights on the device as far as it has room, in the order of their first use; once, later
  /// calls do nothing. Errors: those of the mover and of the host; then the next call begins anew.
  [[nodiscard]] Result<void> bind_first();
  /// Errors: usage, for parameters that do not exist; does_not_fit, where the device cannot hold all of them at once,
  /// and those of the mover, of UpdateBarrier::complete and of the host; then nothing is lent.
  [[nodiscard]] Result<void> acquire(const castor_access& access);
  /// Errors: usage, where no such access is open; those of StateIo::take_weights, and then the weights stay lent:
  /// release may be called again.
  [[nodiscard]] Result<void> release(const castor_access& access);

 private:
  std::vector<ChunkId> chunks_of(const castor_access& access) const;
  std::uint64_t bytes_beside_pinned(const std::vector<ChunkId>& chunks) const;
  Result<void> hold(const std::vector<ChunkId>& chunks);
  Result<void> bind(const castor_access& access);
  Result<void> take_written(const castor_access& access);
  void unhold(const std::vector<ChunkId>& chunks);

  EngineRooms& rooms_;
  bool bound_first_ = false;
  OpenAccesses open_;
};

}  // namespace castor
