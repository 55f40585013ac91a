// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include <castor/chunk/chunk_manager.h>

namespace castor {

/// What chunks on the host held before somebody wrote them anew, kept until it is known which of the two stays. Nothing is
/// copied: the old contents stay where they are, in memory that changes owners, and the new ones are written beside them.
///
/// Threads: one at a time.
class KeptChunks {
 public:
  /// Borrowed; must outlive this.
  explicit KeptChunks(ChunkManager& chunks) : chunks_(chunks) {}

  /// Sets memory aside to keep `ids`; false where the host has none left.
  bool open(std::span<const ChunkId> ids);

  /// Keeps what `id` holds on the host. Its contents are from here on undefined, until they are written. Requires: room
  /// that is set aside, current contents on the host (ContractViolation).
  void keep(ChunkId id);
  bool kept(ChunkId id) const;
  /// From what `id` holds on the host to what is kept of it; 0 where nothing is.
  std::ptrdiff_t bytes_to_old(ChunkId id) const;
  /// `reader` reads what is kept.
  void read_until(ChunkId id, const Event& reader);
  /// `id` holds on the host what is kept of it, instead of what it held since. Requires: kept.
  void put_back(ChunkId id);

  /// Forgets what is kept of `ids`, and gives the memory back.
  void drop(std::span<const ChunkId> ids);

 private:
  ChunkManager& chunks_;
  std::map<ChunkId, ChunkId> twins_;  ///< by chunk: whose memory its contents are exchanged with
};

}  // namespace castor
