// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include <castor/chunk/chunk_manager.h>

namespace castor {

/// The old contents of host chunks that are being overwritten, kept until the old or the new ones are chosen. Nothing
/// is copied: the old contents stay where they are, in memory that changes owners, and the new ones are written to
/// other memory.
///
/// Threads: one at a time.
class KeptChunks {
 public:
  /// Borrowed; must outlive this.
  explicit KeptChunks(ChunkManager& chunks) : chunks_(chunks) {}

  /// Sets memory aside to keep `ids`; false where the host has none left.
  bool open(std::span<const ChunkId> ids);

  /// Keeps the contents of `id` on the host. The contents of `id` itself are undefined from here on, until they are
  /// written. Requires: memory was set aside by open(), contents are current on the host (ContractViolation).
  void keep(ChunkId id);
  bool kept(ChunkId id) const;
  /// The offset from the contents of `id` on the host to the kept ones; 0 where none are kept.
  std::ptrdiff_t bytes_to_old(ChunkId id) const;
  /// The kept contents of `id` must stay until `reader`, which reads them.
  void read_until(ChunkId id, const Event& reader);
  /// Makes the kept contents of `id` its contents on the host again. Requires: kept.
  void put_back(ChunkId id);

  /// Discards the kept contents of `ids` and their memory.
  void drop(std::span<const ChunkId> ids);

 private:
  ChunkManager& chunks_;
  std::map<ChunkId, ChunkId> twins_;  ///< by chunk: the undo chunk with which it exchanges memory
};

}  // namespace castor
