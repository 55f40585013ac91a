// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_manager.h>

#include <algorithm>
#include <utility>

namespace castor {

/// Starts a move by `start`, which returns the event of its end; it is in the timeline once it has ended.
template <typename Start>
Event ChunkManager::log_move(Lane lane, ChunkId id, std::uint64_t n_bytes, const Start& start) {
  const std::uint64_t start_ns = places_.timeline.now_ns();
  Event done = start();
  moves_[index(lane)].push_back({lane, id, start_ns, n_bytes, done});
  return done;
}

ChunkManager::~ChunkManager() {
  device_release_ = nullptr;  // whoever listens may be gone
  (void)drain();
}

ChunkId ChunkManager::add(ChunkKind kind, std::uint64_t n_bytes, std::string label) {
  Chunk chunk;
  chunk.kind = kind;
  chunk.n_bytes = n_bytes;
  chunk.label = std::move(label);
  chunks_.push_back(std::move(chunk));
  return n_chunks() - 1;
}

/// Gives the copy memory of its own that nothing asynchronous touches any more, for other contents than it had.
Result<void> ChunkManager::allocate(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  if (copy.buffer) {
    const auto settled = settle(id, tier);
    if (copy.current) CASTOR_TRY(settled);
  } else {
    CASTOR_ASSIGN(copy.buffer, Buffer::allocate(resource(tier), chunks_[id].n_bytes));
  }
  copy.leaving = false;
  copy.checksums = nullptr;
  return {};
}

/// Bytes that failed to come are still where they came from.
Result<void> ChunkManager::settle(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  const auto came = std::exchange(copy.arrived, {}).wait();
  copy.current = copy.current && came.ok();
  const auto gone = copy.settle_readers();
  if (!gone.ok() && copy.current) {
    written(id, tier);
    copy.leaving = false;
  }
  return came.ok() ? gone : came;
}

/// True where the copy's bytes failed to come, but the tier they came from can be asked again.
bool ChunkManager::can_come_again(const Chunk& chunk, Tier tier) const {
  const Event& arrived = chunk.at(tier).arrived;
  if (!arrived.ready() || arrived.wait().ok()) return false;
  return tier == Tier::device ? chunk.resident(Tier::host) : chunk.resident(Tier::device) || chunk.nvme_current;
}

Result<BufferView> ChunkManager::open(ChunkId id, Tier tier) {
  CASTOR_TRY(allocate(id, tier));
  return chunks_[id].at(tier).buffer.view();
}

Result<BufferView> ChunkManager::edit(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  if (!copy.current) throw ContractViolation(chunks_[id].label + ": edited on " + name(tier) + ", where it is not");
  copy.leaving = false;
  copy.checksums = nullptr;
  CASTOR_TRY(copy.settle_readers());
  return copy.buffer.view();
}

Result<void> ChunkManager::join(ChunkId id) {
  ChunkCopy& device = chunks_.at(id).at(Tier::device);
  if (!device.current) throw ContractViolation(chunks_[id].label + ": joined on the device, where it is not");
  CASTOR_TRY(places_.compute.wait(device.arrived));
  device.arrived = {};
  return {};
}

void ChunkManager::arriving(ChunkId id, Tier tier, std::uint64_t n_bytes, Event event) {
  if (tier == Tier::host) {
    moved_.d2h += n_bytes;
    (void)log_move(Lane::d2h, id, n_bytes, [&event] { return event; });
  }
  written(id, tier, std::move(event));
}

Result<Event> ChunkManager::fetch(ChunkId id, Tier tier) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(tier);
  if (copy.current && !can_come_again(chunk, tier)) {
    copy.leaving = false;
    return copy.arrived;
  }
  const Tier other = tier == Tier::device ? Tier::host : Tier::device;
  const bool from_neighbour = chunk.resident(other);
  if (!from_neighbour && (tier == Tier::device || !chunk.nvme_current))
    throw ContractViolation(chunk.label + ": fetched to " + name(tier) + ", but no neighbouring tier has its contents");
  CASTOR_TRY(allocate(id, tier));
  if (!from_neighbour) {
    read_spilled(id);
  } else if (auto started = tier == Tier::device ? upload(id) : download(id); !started.ok()) {
    drop(id, tier);  // memory for bytes that do not come
    return started.error();
  }
  copy.current = true;
  return copy.arrived;
}

Result<void> ChunkManager::upload(ChunkId id) {
  Chunk& chunk = chunks_[id];
  ChunkCopy& host = chunk.at(Tier::host);
  CASTOR_TRY(host.arrived.wait());  // bytes that failed to come from below must not go up
  CASTOR_TRY(places_.up.wait(slots_left_));
  ChunkCopy& device = chunk.at(Tier::device);
  device.arrived = log_move(Lane::h2d, id, chunk.n_bytes,
                            [&] { return places_.up.copy(device.buffer.data(), host.buffer.data(), chunk.n_bytes); });
  host.add_reader(device.arrived);
  moved_.h2d += chunk.n_bytes;
  return {};
}

Result<void> ChunkManager::download(ChunkId id) {
  Chunk& chunk = chunks_[id];
  ChunkCopy& device = chunk.at(Tier::device);
  CASTOR_TRY(places_.down.wait(device.arrived));
  CASTOR_TRY(places_.down.wait(places_.compute.record()));
  ChunkCopy& host = chunk.at(Tier::host);
  host.arrived = log_move(Lane::d2h, id, chunk.n_bytes,
                          [&] { return places_.down.copy(host.buffer.data(), device.buffer.data(), chunk.n_bytes); });
  device.add_reader(host.arrived);
  moved_.d2h += chunk.n_bytes;
  return {};
}

void ChunkManager::read_spilled(ChunkId id) {
  Chunk& chunk = chunks_[id];
  ChunkCopy& host = chunk.at(Tier::host);
  host.arrived =
      log_move(Lane::nvme_read, id, chunk.n_bytes, [&] { return places_.spill->read(id, host.buffer.view()); });
  moved_.nvme_read += chunk.n_bytes;
}

void ChunkManager::exchange(ChunkId a, ChunkId b, Tier tier) {
  ChunkCopy &first = chunks_.at(a).at(tier), &second = chunks_.at(b).at(tier);
  if (chunks_[a].n_bytes != chunks_[b].n_bytes || !first.buffer || !second.buffer || first.leaving || second.leaving)
    throw ContractViolation(chunks_[a].label + ": exchanged on " + name(tier) + " with " + chunks_[b].label);
  std::swap(first.buffer, second.buffer);
  std::swap(first.arrived, second.arrived);
  std::swap(first.readers, second.readers);
  std::swap(first.checksums, second.checksums);
  std::swap(first.current, second.current);
}

void ChunkManager::written(ChunkId id, Tier tier, Event done) {
  Chunk& chunk = chunks_.at(id);
  if (done.state() != nullptr) chunk.at(tier).arrived = std::move(done);
  chunk.at(tier).current = true;
  chunk.at(tier).checksums = nullptr;
  chunk.nvme_current = false;
  if (chunk.nvme_held) outdated_.emplace(chunk.n_bytes, id);
  const Tier other = tier == Tier::device ? Tier::host : Tier::device;
  if (chunk.at(other).buffer) drop(id, other);
  chunk.at(other).current = false;
}

/// The copy is not needed any more; its memory goes with the next reap that finds it quiet.
void ChunkManager::drop(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_[id].at(tier);
  if (std::exchange(copy.leaving, true)) return;
  leaving_[index(tier)].push_back(id);
  if (tier == Tier::device) slots_left_ = places_.compute.record();
  if (tier == Tier::device && copy.current && device_release_) device_release_(id);
}

Result<void> ChunkManager::release(ChunkId id, Tier tier) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(tier);
  if (!copy.buffer || copy.leaving) return {};
  if (copy.n_pins > 0) throw ContractViolation(chunk.label + ": released from " + name(tier) + " while pinned");
  if (!chunk.clean(tier)) {
    if (tier == Tier::device) throw ContractViolation(chunk.label + ": its only copy would leave the device");
    if (!has_spill())
      return Error{
          ErrorKind::usage,
          chunk.label + " does not fit in the host budget and there is no tier below; name a folder with --nvme"};
    CASTOR_TRY(write_back(id));
  }
  drop(id, tier);
  return {};
}

Result<void> ChunkManager::write_back(ChunkId id) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(Tier::host);
  if (chunk.nvme_current) return {};
  if (!copy.current) throw ContractViolation(chunk.label + ": written back from the host, where it is not");
  if (!has_spill())
    return Error{ErrorKind::usage, chunk.label + ": there is no tier below the host; name a folder with --nvme"};
  CASTOR_TRY(copy.arrived.wait());
  if (!std::exchange(chunk.nvme_held, true)) take_outdated_room(chunk.n_bytes);
  outdated_.erase({chunk.n_bytes, id});
  const auto known =
      copy.checksums ? std::span<const std::uint64_t>(*copy.checksums) : std::span<const std::uint64_t>();
  copy.add_reader(log_move(Lane::nvme_write, id, chunk.n_bytes,
                           [&] { return places_.spill->write(id, copy.buffer.view(), known); }));
  moved_.nvme_write += chunk.n_bytes;
  chunk.nvme_current = true;
  return {};
}

/// Of the least that is enough. So the spill store does not grow as long as it holds what nobody will read.
void ChunkManager::take_outdated_room(std::uint64_t n_bytes) {
  const auto enough = outdated_.lower_bound({n_bytes, 0});
  if (enough != outdated_.end()) forget_spilled(enough->second);
}

void ChunkManager::forget_spilled(ChunkId id) {
  Chunk& chunk = chunks_[id];
  chunk.nvme_current = false;
  outdated_.erase({chunk.n_bytes, id});
  if (std::exchange(chunk.nvme_held, false)) places_.spill->forget(id);
}

void ChunkManager::spilled(ChunkId id) {
  drop_copies(id);
  Chunk& chunk = chunks_[id];
  chunk.nvme_current = chunk.nvme_held = true;
  outdated_.erase({chunk.n_bytes, id});
}

void ChunkManager::discard(ChunkId id) {
  drop_copies(id);
  forget_spilled(id);
}

void ChunkManager::drop_copies(ChunkId id) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    ChunkCopy& copy = chunks_.at(id).at(tier);
    if (copy.buffer) drop(id, tier);
    copy.current = false;
  }
}

Result<std::uint64_t> ChunkManager::reap(Tier tier) {
  settle_moves();
  auto& queue = leaving_[index(tier)];
  std::uint64_t freed_bytes = 0;
  for (std::size_t n_left = queue.size(); n_left > 0; --n_left) {
    const ChunkId id = queue.front();
    queue.pop_front();
    ChunkCopy& copy = chunks_[id].at(tier);
    if (!copy.leaving) continue;  // kept after all
    if (copy.n_pins > 0 || !copy.quiet()) {
      queue.push_back(id);
      continue;
    }
    const auto settled = settle(id, tier);
    if (!copy.leaving) return settled.error();
    copy = ChunkCopy();
    freed_bytes += chunks_[id].n_bytes;
  }
  return freed_bytes;
}

bool ChunkManager::wait_for_leaving(Tier tier, std::chrono::nanoseconds limit) const {
  for (const ChunkId id : leaving_.at(index(tier))) {
    const ChunkCopy& copy = chunks_[id].at(tier);
    if (copy.leaving && copy.n_pins == 0) return copy.wait_for_one(limit), true;
  }
  return false;
}

Result<void> ChunkManager::drain() {
  Result<void> outcome;
  for (ChunkId id = 0; id < n_chunks(); ++id)
    for (const Tier tier : {Tier::device, Tier::host})
      if (auto settled = settle(id, tier); outcome.ok()) outcome = settled;
  settle_moves();
  return outcome;
}

/// Enters the moves that have ended into the timeline. A lane ends them about in their order, so only its first is asked:
/// with hundreds under way asking all took longer than the moment.
void ChunkManager::settle_moves() {
  for (auto& moves : moves_)
    for (; !moves.empty() && moves.front().done.ready(); moves.pop_front()) record(moves.front());
}

/// It ended when its event says, and now where that does not know. One stream copies each way, so a copy did not begin before
/// the one ahead of it had ended.
void ChunkManager::record(const Move& move) {
  const std::uint64_t now_ns = places_.timeline.now_ns();
  const std::uint64_t end_ns = std::clamp(move.done.reached_ns().value_or(now_ns), move.start_ns, now_ns);
  const bool in_turn = move.lane == Lane::h2d || move.lane == Lane::d2h;
  const std::uint64_t free_ns = in_turn ? last_end_ns_[index(move.lane)] : 0;
  places_.timeline.record({move.lane, move.chunk, std::clamp(free_ns, move.start_ns, end_ns), end_ns, move.n_bytes});
  last_end_ns_[index(move.lane)] = end_ns;
}

}  // namespace castor
