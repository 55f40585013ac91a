// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>

#include <castor/chunk/chunk_manager.h>

namespace castor {

/// The old contents of host chunks that are being overwritten, saved until the old or the new ones are chosen. Nothing
/// is copied: the old contents stay where they are, in memory that changes owners, and the new ones are written to
/// other memory.
///
/// Threads: one at a time.
class UndoChunks {
 public:
  /// Borrowed; must outlive this.
  explicit UndoChunks(ChunkManager& chunks) : chunks_(chunks) {}

  /// Sets memory aside to save `ids`; false where the host has none left.
  bool reserve(std::span<const ChunkId> ids);

  /// Saves the contents of `id` on the host. The contents of `id` itself are undefined from here on, until they are
  /// written. Requires: memory was set aside by reserve(), contents are current on the host (ContractViolation).
  void save(ChunkId id);
  bool saved(ChunkId id) const;
  /// The offset from the contents of `id` on the host to the saved ones; 0 where none are saved.
  std::ptrdiff_t bytes_to_old(ChunkId id) const;
  /// The saved contents of `id` must stay until `reader`, which reads them.
  void read_until(ChunkId id, const Event& reader);
  /// Makes the saved contents of `id` its contents on the host again. Requires: saved.
  void restore(ChunkId id);

  /// Discards the saved contents of `ids` and their memory.
  void drop(std::span<const ChunkId> ids);

 private:
  ChunkManager& chunks_;
  std::map<ChunkId, ChunkId> undo_;  ///< by chunk: the undo chunk with which it exchanges memory
};

}  // namespace castor
