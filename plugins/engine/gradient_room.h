// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine_rooms.h"

namespace castor {

/// Keeps gradients that have not been copied yet within the device's room beside chunks: the training thread, which may
/// be units ahead of the device, waits for the oldest of them before a unit is entered. Those of the unit at hand come on
/// top.
class GradientRoom {
 public:
  /// Borrowed.
  explicit GradientRoom(EngineRooms& rooms);

  /// Called when `moment`, a use of a unit, has begun for the device's watch. Errors: those of
  /// GradientsInFlight::free_bytes.
  [[nodiscard]] Result<void> before(Moment moment);

 private:
  EngineRooms& rooms_;
  const std::uint64_t most_bytes_;  ///< on their way at once; no limit where the device is the host
};

}  // namespace castor
