// SPDX-License-Identifier: Apache-2.0
#include "gradient_room.h"

#include <algorithm>

#include <castor/memory/budget.h>
#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// A unit's gradients leave while the next unit computes; one more evens out passes of different lengths.
constexpr std::uint64_t kUnitsAhead = 3;
/// Of the device's budget, where that is more.
constexpr std::uint64_t kShare = 8;

}  // namespace

GradientRoom::GradientRoom(EngineRooms& rooms)
    : rooms_(rooms),
      most_bytes_(rooms.memory->on_gpu() ? std::max(kUnitsAhead * rooms.largest_unit().payload_bytes,
                                                    rooms.options.device_budget_bytes / kShare)
                                         : Budget::kUnlimited) {}

Result<void> GradientRoom::before(Moment moment) {
  GradientsInFlight& gradients = rooms_.optimizer->gradients().store().in_flight();
  return gradients.free_bytes(
      std::max(saturating_sub(gradients.n_bytes(), most_bytes_), rooms_.watch.excess_bytes(moment)));
}

}  // namespace castor
