// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include <castor/chunk/chunk.h>
#include <castor/chunk/copy_memory.h>
#include <castor/chunk/host_wait.h>
#include <castor/chunk/spill_store.h>

namespace castor {

class MoveLog;

/// The chunks in the tier below the host: which of them have room in the spill store, and which of that room holds
/// contents that are out of date. A chunk keeps such room until a chunk without any is written: that one takes over the
/// smallest outdated room that is large enough, so that the store does not grow while it holds bytes nothing will read.
/// Where the store has no room left, those lose theirs whose contents are on the host or the device as well.
///
/// Threads: one thread at a time.
class LowerTier {
 public:
  /// All are borrowed and must outlive the object; `spill` is null where there is no tier below the host.
  LowerTier(IndexedVector<ChunkId, Chunk>& chunks, SpillStore* spill, MoveLog& log, CopyMemory& memory,
            const HostWait& wait)
      : chunks_(chunks), spill_(spill), log_(log), memory_(memory), wait_(wait) {}

  /// Null where there is no tier below the host.
  const SpillStore* spill() const { return spill_; }

  /// Starts to store the contents of the host's copy in the spill store as well, unless they are there already. The
  /// copy stays; ChunkManager::settle waits for the write. Waits for the copy's arrival. Requires: the copy is current
  /// (ContractViolation). Errors: usage where there is no spill store; does_not_fit where it has no room; those of the
  /// arrival and of the HostWait.
  [[nodiscard]] Result<void> write_back(ChunkId id);

  /// From now on the contents of the chunk are those that the spill store has under its number. Requires: not pinned.
  void spilled(ChunkId id);

 private:
  friend class ChunkManager;  // it alone knows when the copies of a chunk allow these

  /// Starts to read the contents into the host's memory.
  void read(ChunkId id);
  /// Newer contents are elsewhere.
  void outdate(ChunkId id);
  /// Waits for the read or write of the chunk that is under way. Errors: those of the HostWait.
  [[nodiscard]] Result<void> await_move(ChunkId id) const;
  /// Requires: no read or write of the chunk is under way.
  void forget(ChunkId id);
  Result<void> make_room(ChunkId id);
  Result<void> take_outdated_room(std::uint64_t n_bytes);
  Result<void> give_up(ChunkId id);

  IndexedVector<ChunkId, Chunk>& chunks_;
  SpillStore* const spill_;
  MoveLog& log_;
  CopyMemory& memory_;
  const HostWait& wait_;
  std::set<std::pair<std::uint64_t, ChunkId>> outdated_;  ///< chunks whose room holds outdated contents, by bytes
};

}  // namespace castor
