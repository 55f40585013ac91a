// SPDX-License-Identifier: Apache-2.0
#include "undo_chunks.h"

namespace castor {

bool UndoChunks::reserve(std::span<const ChunkId> ids) {
  for (const ChunkId id : ids) {
    const Chunk& of = chunks_.chunk(id);
    if (!undo_.contains(id)) undo_[id] = chunks_.add(ChunkKind::undo, of.n_bytes, of.label + ", as they were");
    const ChunkId undo = undo_[id];
    if (!chunks_.open(undo, Tier::host).ok()) return drop(ids), false;
    chunks_.pin(undo, Tier::host);
  }
  return true;
}

void UndoChunks::save(ChunkId id) { chunks_.exchange(id, undo_.at(id), Tier::host); }

bool UndoChunks::saved(ChunkId id) const {
  const auto undo = undo_.find(id);
  return undo != undo_.end() && chunks_.chunk(undo->second).resident(Tier::host);
}

std::ptrdiff_t UndoChunks::bytes_to_old(ChunkId id) const {
  if (!saved(id)) return 0;
  const auto address = [this](ChunkId of) {
    return reinterpret_cast<std::intptr_t>(chunks_.chunk(of).at(Tier::host).buffer.data());
  };
  return address(undo_.at(id)) - address(id);
}

void UndoChunks::read_until(ChunkId id, const Event& reader) { chunks_.read_until(undo_.at(id), Tier::host, reader); }

void UndoChunks::restore(ChunkId id) { chunks_.exchange(id, undo_.at(id), Tier::host); }

void UndoChunks::drop(std::span<const ChunkId> ids) {
  for (const ChunkId id : ids) {
    const auto undo = undo_.find(id);
    if (undo == undo_.end() || !chunks_.chunk(undo->second).pinned()) continue;
    chunks_.unpin(undo->second, Tier::host);
    (void)chunks_.discard(undo->second);  // it was pinned to the host, so no drive has it
  }
}

}  // namespace castor
