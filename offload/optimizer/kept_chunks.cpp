// SPDX-License-Identifier: Apache-2.0
#include "kept_chunks.h"

namespace castor {

bool KeptChunks::open(std::span<const ChunkId> ids) {
  for (const ChunkId id : ids) {
    const Chunk& of = chunks_.chunk(id);
    if (!twins_.contains(id)) twins_[id] = chunks_.add(ChunkKind::undo, of.n_bytes, of.label + ", as they were");
    const ChunkId twin = twins_[id];
    if (!chunks_.open(twin, Tier::host).ok()) return drop(ids), false;
    chunks_.pin(twin, Tier::host);
  }
  return true;
}

void KeptChunks::keep(ChunkId id) { chunks_.exchange(id, twins_.at(id), Tier::host); }

bool KeptChunks::kept(ChunkId id) const {
  const auto twin = twins_.find(id);
  return twin != twins_.end() && chunks_.chunk(twin->second).resident(Tier::host);
}

std::ptrdiff_t KeptChunks::bytes_to_old(ChunkId id) const {
  if (!kept(id)) return 0;
  const auto address = [this](ChunkId of) {
    return reinterpret_cast<std::intptr_t>(chunks_.chunk(of).at(Tier::host).buffer.data());
  };
  return address(twins_.at(id)) - address(id);
}

void KeptChunks::read_until(ChunkId id, const Event& reader) { chunks_.read_until(twins_.at(id), Tier::host, reader); }

void KeptChunks::put_back(ChunkId id) { chunks_.exchange(id, twins_.at(id), Tier::host); }

void KeptChunks::drop(std::span<const ChunkId> ids) {
  for (const ChunkId id : ids) {
    const auto twin = twins_.find(id);
    if (twin == twins_.end() || !chunks_.chunk(twin->second).pinned()) continue;
    chunks_.unpin(twin->second, Tier::host);
    (void)chunks_.discard(twin->second);  // it was pinned to the host, so no drive has it
  }
}

}  // namespace castor
