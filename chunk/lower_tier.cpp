// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/lower_tier.h>

#include <span>

#include "move_log.h"

namespace castor {
namespace {

/// Not where its read is under way or has failed, nor where it is leaving.
bool has_arrived(const ChunkCopy& copy) {
  return copy.current && !copy.leaving && copy.arrived.ready() && copy.arrived.wait().ok();
}

bool is_above(const Chunk& chunk) { return has_arrived(chunk.at(Tier::host)) || has_arrived(chunk.at(Tier::device)); }

}  // namespace

Result<void> LowerTier::write_back(ChunkId id) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& copy = chunk.at(Tier::host);
  if (chunk.nvme_current) return {};
  if (!copy.current) throw ContractViolation(chunk.label + ": written back from the host, where it is not");
  if (spill_ == nullptr)
    return Error{ErrorKind::usage, chunk.label + ": there is no tier below the host; name a folder with `nvme`",
                 "nvme"};
  CASTOR_TRY(wait_(copy.arrived, chunk.label));
  CASTOR_TRY(copy.arrived.wait());
  if (!chunk.nvme_held) CASTOR_TRY(make_room(id));
  chunk.nvme_held = true;
  outdated_.erase({chunk.n_bytes, id});
  const auto known =
      copy.checksums ? std::span<const std::uint64_t>(*copy.checksums) : std::span<const std::uint64_t>();
  chunk.nvme_moved =
      log_.start(Lane::nvme_write, id, chunk.n_bytes, [&] { return spill_->write(id, copy.buffer.view(), known); });
  copy.add_reader(chunk.nvme_moved);
  chunk.nvme_current = true;
  return {};
}

void LowerTier::spilled(ChunkId id) {
  memory_.drop_all(id);
  Chunk& chunk = chunks_[id];
  chunk.nvme_current = chunk.nvme_held = true;
  outdated_.erase({chunk.n_bytes, id});
}

void LowerTier::read(ChunkId id) {
  Chunk& chunk = chunks_.at(id);
  ChunkCopy& host = chunk.at(Tier::host);
  host.arrived = log_.start(Lane::nvme_read, id, chunk.n_bytes, [&] { return spill_->read(id, host.buffer.view()); });
  chunk.nvme_moved = host.arrived;
}

void LowerTier::outdate(ChunkId id) {
  Chunk& chunk = chunks_.at(id);
  chunk.nvme_current = false;
  if (chunk.nvme_held) outdated_.emplace(chunk.n_bytes, id);
}

Result<void> LowerTier::await_move(ChunkId id) const { return wait_(chunks_[id].nvme_moved, chunks_[id].label); }

void LowerTier::forget(ChunkId id) {
  Chunk& chunk = chunks_[id];
  chunk.nvme_current = false;
  outdated_.erase({chunk.n_bytes, id});
  if (std::exchange(chunk.nvme_held, false)) spill_->forget(id);
}

/// Room for a chunk that has none in the store.
Result<void> LowerTier::make_room(ChunkId id) {
  const Chunk& wanted = chunks_[id];
  CASTOR_TRY(take_outdated_room(wanted.n_bytes));
  const auto room = [&] { return spill_->check_room(wanted.n_bytes, wanted.label); };
  while (!outdated_.empty() && !room().ok()) CASTOR_TRY(give_up(outdated_.begin()->second));
  for (const ChunkId other : chunks_.ids()) {
    if (room().ok()) return {};
    if (chunks_[other].nvme_held && is_above(chunks_[other])) CASTOR_TRY(give_up(other));
  }
  return room();
}

Result<void> LowerTier::take_outdated_room(std::uint64_t n_bytes) {
  const auto smallest = outdated_.lower_bound({n_bytes, ChunkId{}});
  return smallest == outdated_.end() ? Result<void>() : give_up(smallest->second);
}

Result<void> LowerTier::give_up(ChunkId id) {
  CASTOR_TRY(await_move(id));
  forget(id);
  return {};
}

}  // namespace castor
