// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/planned_moves.h>

#include <algorithm>
#include <utility>

namespace castor {

void PlannedMoves::follow(IndexedVector<ChunkId, Places> places) {
  in_force_ = true;
  going_.clear();
  wanted_ = std::move(places);
}

void PlannedMoves::drop() {
  in_force_ = false;
  going_.clear();
  fetches_.clear();
}

void PlannedMoves::set_rest(ChunkId id, Places rest) {
  rest_.resize(chunks_.ids().size(), kAnywhere);
  rest_.at(id) = rest;
}

Places PlannedMoves::wanted(ChunkId id, bool on_trace) const {
  const IndexedVector<ChunkId, Places>& wanted = in_force_ && on_trace ? wanted_ : rest_;
  return wanted.contains(id) ? wanted[id] : kAnywhere;  // chunks added since may be anywhere
}

void PlannedMoves::add(const MoveOrders& orders) {
  for (const WantedPlaces& leaving : orders.leaving) send(leaving.chunk, leaving.places);
  for (const WantedPlaces& used : orders.used) {
    wanted_[used.chunk] = used.places;
    std::erase(going_, used.chunk);
  }
  for (const PlannedMove& move : orders.fetches) {
    send(move.chunk, move.to);
    fetches_.push_back(move);
  }
}

void PlannedMoves::send(ChunkId id, Places places) {
  wanted_[id] = places;
  if (std::find(going_.begin(), going_.end(), id) == going_.end()) going_.push_back(id);
}

void PlannedMoves::advance(std::optional<Tier> full) {
  for (const ChunkId id : going_)
    if (can_go(id)) advance(id, wanted_[id], full);
  std::erase_if(going_, [this](ChunkId id) { return !can_go(id) || arrived(id); });
}

void PlannedMoves::advance(ChunkId id, Places wanted, std::optional<Tier> full) {
  if (full != Tier::device) copy_up(id, wanted);
  if (full != Tier::host) copy_down(id, wanted);
  leave_device(id, wanted);
  leave_host(id, wanted);
}

bool PlannedMoves::can_go(ChunkId id) const {
  const Chunk& chunk = chunks_.chunk(id);
  return !chunk.pinned() && chunk.has_contents() && wanted_[id] != kNowhere;
}

/// A copy that stays behind is evicted when its room is needed.
bool PlannedMoves::arrived(ChunkId id) const {
  const Chunk& chunk = chunks_.chunk(id);
  const auto left_in = [&](Tier tier) { return chunk.resident(tier) && !holds(wanted_[id], tier); };
  const bool came_up = !holds(wanted_[id], Tier::device) || chunk.resident(Tier::device);
  return came_up && !left_in(Tier::device) && !left_in(Tier::host);
}

/// Fetches a chunk that the plan keeps in spare room of the device. Where that room is taken after all the chunk stays
/// below: an error is ignored here and in the three functions that follow.
void PlannedMoves::copy_up(ChunkId id, Places wanted) {
  const Chunk& chunk = chunks_.chunk(id);
  if (!holds(wanted, Tier::device) || chunk.resident(Tier::device) || !chunk.resident(Tier::host)) return;
  if (chunk.at(Tier::host).arrived.ready()) (void)chunks_.fetch(id, Tier::device);
}

void PlannedMoves::copy_down(ChunkId id, Places wanted) {
  const Chunk& chunk = chunks_.chunk(id);
  const bool leaves_device = chunk.resident(Tier::device) && !holds(wanted, Tier::device);
  const bool wants_host = (holds(wanted, Tier::host) || leaves_device) && chunk.resident(Tier::device);
  if (wants_host && !chunk.clean(Tier::device)) (void)chunks_.fetch(id, Tier::host);
}

void PlannedMoves::leave_device(ChunkId id, Places wanted) {
  const Chunk& chunk = chunks_.chunk(id);
  const bool leaves = chunk.resident(Tier::device) && !holds(wanted, Tier::device);
  if (leaves && chunk.clean(Tier::device)) (void)chunks_.release(id, Tier::device);
}

void PlannedMoves::leave_host(ChunkId id, Places wanted) {
  const Chunk& chunk = chunks_.chunk(id);
  const bool leaves = chunk.resident(Tier::host) && !holds(wanted, Tier::host);
  const bool can_leave = chunk.clean(Tier::host) || holds(wanted, Tier::nvme);
  if (leaves && can_leave && chunk.at(Tier::host).arrived.ready()) (void)chunks_.release(id, Tier::host);
}

Result<void> PlannedMoves::start_fetches() {
  FullTiers full = {false, false};
  for (std::size_t n_left = fetches_.size(); n_left > 0; --n_left) {
    const PlannedMove move = fetches_.front();
    fetches_.pop_front();
    const Tier tier = holds(move.to, Tier::device) && !holds(move.from, Tier::device) ? Tier::device : Tier::host;
    CASTOR_TRY(start_fetch(move.chunk, tier, full));
    const Chunk& chunk = chunks_.chunk(move.chunk);
    if (!chunk.resident(tier) && chunk.has_contents()) fetches_.push_back(move);
  }
  return {};
}

/// Starts one hop of a fetch if that takes no waiting, and if the tier where the hop ends has room.
Result<void> PlannedMoves::start_fetch(ChunkId id, Tier tier, FullTiers& full) {
  const Chunk& chunk = chunks_.chunk(id);
  if (chunk.resident(tier) || chunk.pinned() || !chunk.has_contents()) return {};
  if (chunk.at(tier).current) return keep(id, tier);
  const Tier below = tier == Tier::device ? Tier::host : Tier::nvme;
  if (!chunk.resident(below) && !(tier == Tier::host && chunk.resident(Tier::device)))
    return start_fetch(id, Tier::host, full);
  if (tier == Tier::device && !chunk.at(Tier::host).arrived.ready()) return {};  // its hop to the host is under way
  while (!full[index(tier)]) {
    auto fetched = chunks_.fetch(id, tier);
    if (fetched.ok()) return {};
    if (fetched.error().kind != ErrorKind::does_not_fit) return fetched.error();
    CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(tier));
    full[index(tier)] = freed_bytes == 0;
  }
  return {};
}

/// Keeps a copy that was leaving. It needs no room: its memory has not been freed yet.
Result<void> PlannedMoves::keep(ChunkId id, Tier tier) {
  CASTOR_TRY(chunks_.fetch(id, tier));
  return {};
}

std::optional<ChunkId> PlannedMoves::unwanted_copy(Tier tier, ChunkId wanted) const {
  const auto found = std::find_if(going_.begin(), going_.end(), [&](ChunkId id) {
    const ChunkCopy& copy = chunks_.chunk(id).at(tier);
    const bool can_go = id != wanted && copy.current && !copy.leaving && copy.n_pins == 0;
    return can_go && !holds(wanted_[id], tier) && chunks_.chunk(id).clean(tier);
  });
  return found != going_.end() ? std::optional(*found) : std::nullopt;
}

}  // namespace castor
