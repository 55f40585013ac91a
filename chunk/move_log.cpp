// SPDX-License-Identifier: Apache-2.0
#include "move_log.h"

#include <algorithm>
#include <string>

#include <castor/memory/result.h>

namespace castor {

std::uint64_t& MoveLog::bytes_of(Lane lane) {
  switch (lane) {
    case Lane::h2d: return moved_.h2d;
    case Lane::d2h: return moved_.d2h;
    case Lane::nvme_read: return moved_.nvme_read;
    case Lane::nvme_write: return moved_.nvme_write;
    default: throw ContractViolation(std::string("MoveLog: a move on the lane ") + name(lane) + ", which is no link");
  }
}

void MoveLog::record_ended() {
  for (auto& moves : under_way_)
    for (; !moves.empty() && moves.front().done.ready(); moves.pop_front()) record(moves.front());
}

/// The move ended when its event says, or now where the event does not know. Each direction between device and host has
/// one stream, so a copy did not begin before the one ahead of it had ended.
void MoveLog::record(const Move& move) {
  const std::uint64_t now_ns = timeline_.now_ns();
  const std::uint64_t end_ns = std::clamp(move.done.reached_ns().value_or(now_ns), move.start_ns, now_ns);
  const bool in_turn = move.lane == Lane::h2d || move.lane == Lane::d2h;
  const std::uint64_t free_ns = in_turn ? last_end_ns_[index(move.lane)] : 0;
  timeline_.record({move.lane, number(move.chunk), std::clamp(free_ns, move.start_ns, end_ns), end_ns, move.n_bytes});
  last_end_ns_[index(move.lane)] = end_ns;
}

}  // namespace castor
