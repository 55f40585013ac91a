// SPDX-License-Identifier: Apache-2.0
#include "room_maker.h"

#include <optional>
#include <string>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

namespace castor {

Result<void> RoomMaker::make_room(ChunkId wanted, Tier tier, const Error& refused) {
  CASTOR_ASSIGN(const std::uint64_t freed_bytes, parts_.chunks.reap(tier));
  if (freed_bytes > 0) return {};
  if (const auto unwanted = parts_.planned.unwanted_copy(tier, wanted)) {
    CASTOR_TRY(parts_.chunks.release(*unwanted, tier));
    return wait_for_room(wanted, tier, refused);
  }
  if (parts_.planned.in_force()) {
    CASTOR_ASSIGN(const bool freed, wait_for_leaving(tier));
    if (freed) return {};
  }
  return evict(wanted, tier, refused);
}

/// Evicts the chunk that the policy chooses. Where that takes a copy while others are leaving already, waits for those
/// first.
Result<void> RoomMaker::evict(ChunkId wanted, Tier tier, const Error& refused) {
  const std::optional<std::uint64_t> free_above_bytes =
      makes_room_on_device_ ? std::nullopt : std::optional(parts_.device.free_bytes());
  const auto victim = parts_.policy.choose(tier, wanted, parts_.waits.guide(), free_above_bytes);
  if (!victim) return wait_for_room(wanted, tier, refused);
  if (!victim->clean) {
    CASTOR_ASSIGN(const bool freed, wait_for_leaving(tier));
    if (freed) return {};
  }
  if (victim->goes_up) {
    const auto there = parts_.chunks.fetch(victim->chunk, Tier::device);
    if (!there.ok()) return there.error().kind == ErrorKind::does_not_fit ? full(wanted, tier, refused) : there.error();
    CASTOR_TRY(parts_.chunks.release(victim->chunk, Tier::host));
    return wait_for_room(wanted, tier, refused);
  }
  if (victim->pending && tier == Tier::host) CASTOR_TRY(parts_.waits.for_arrival(victim->chunk, tier));
  const bool before = std::exchange(makes_room_on_device_, makes_room_on_device_ || tier == Tier::device);
  const auto pushed = parts_.push_down(victim->chunk, tier);
  makes_room_on_device_ = before;
  if (pushed.ok()) return wait_for_room(wanted, tier, refused);
  if (pushed.error().kind != ErrorKind::does_not_fit) return pushed;
  CASTOR_ASSIGN(const bool freed, wait_for_leaving(tier));
  return freed ? Result<void>() : pushed;
}

/// Waits until a copy has left; false where none is leaving, or none left.
Result<bool> RoomMaker::wait_for_leaving(Tier tier) {
  if (!parts_.chunks.memory().leaving(tier)) return false;
  CASTOR_ASSIGN(const std::uint64_t freed_bytes, parts_.waits.for_leaving(tier));
  return freed_bytes > 0;
}

/// The same. Errors: does_not_fit, where that leaves no room.
Result<void> RoomMaker::wait_for_room(ChunkId wanted, Tier tier, const Error& refused) {
  CASTOR_ASSIGN(const bool freed, wait_for_leaving(tier));
  if (!freed) return full(wanted, tier, refused);
  return {};
}

Error RoomMaker::full(ChunkId wanted, Tier tier, const Error& refused) const {
  parts_.chunks.memory().trim(tier);
  const Budget& budget = tier == Tier::device ? parts_.device : parts_.host;
  const std::uint64_t n_bytes = parts_.chunks.chunk(wanted).n_bytes;
  if (n_bytes <= budget.free_bytes()) return refused;  // the machine has less than the budget allows
  const std::uint64_t needed_bytes = budget.stated_for(n_bytes);
  std::string way_out = std::string("raise `") + budget_option(tier) + "` to " + format_bytes_up(needed_bytes);
  if (tier == Tier::host && parts_.chunks.below().spill() == nullptr) way_out += " or name a folder with `nvme`";
  return does_not_fit({tier, needed_bytes, budget.stated_bytes()},
                      std::string(name(tier)) + " tier: " + parts_.chunks.chunk(wanted).label + " needs " +
                          format_bytes(n_bytes) +
                          ", nothing more can be evicted: " + format_bytes(budget.used_bytes()) + " of the " +
                          format_bytes(budget.limit_bytes()) + " for chunks are in use; " + way_out);
}

}  // namespace castor
