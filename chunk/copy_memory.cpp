// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/copy_memory.h>

#include <utility>

namespace castor {

bool CopyMemory::wait_for_leaving(Tier tier, std::chrono::nanoseconds limit) const {
  for (const ChunkId id : leaving_.at(index(tier))) {
    const ChunkCopy& copy = chunks_[id].at(tier);
    if (copy.leaving && copy.n_pins == 0) return copy.wait_for_one(limit), true;
  }
  return false;
}

Result<void> CopyMemory::allocate(ChunkId id, Tier tier) {
  Chunk& chunk = chunks_.at(id);
  CASTOR_ASSIGN(chunk.at(tier).buffer, Buffer::allocate(*resources_.at(index(tier)), chunk.n_bytes));
  return {};
}

void CopyMemory::drop(ChunkId id, Tier tier) {
  ChunkCopy& copy = chunks_.at(id).at(tier);
  if (std::exchange(copy.leaving, true)) return;
  leaving_[index(tier)].push_back(id);
  if (tier == Tier::device) slots_free_ = compute_.record();
  if (tier == Tier::device && copy.current && device_release_) device_release_(id);
}

void CopyMemory::drop_all(ChunkId id) {
  for (const Tier tier : {Tier::device, Tier::host}) {
    ChunkCopy& copy = chunks_.at(id).at(tier);
    if (copy.buffer) drop(id, tier);
    copy.current = false;
  }
}

Result<std::uint64_t> CopyMemory::reap(Tier tier, const std::function<Result<void>(ChunkId)>& settle) {
  auto& queue = leaving_.at(index(tier));
  std::uint64_t freed_bytes = 0;
  for (std::size_t n_left = queue.size(); n_left > 0; --n_left) {
    const ChunkId id = queue.front();
    queue.pop_front();
    ChunkCopy& copy = chunks_[id].at(tier);
    if (!copy.leaving) continue;  // it was kept after its drop
    if (copy.n_pins > 0 || !copy.quiet()) {
      queue.push_back(id);
      continue;
    }
    const auto settled = settle(id);
    if (!copy.leaving) return settled.error();
    copy = ChunkCopy();
    freed_bytes += chunks_[id].n_bytes;
  }
  return freed_bytes;
}

}  // namespace castor
