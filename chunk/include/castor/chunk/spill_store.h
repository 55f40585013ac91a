// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

/// The tier below host memory, as the chunk room sees it: no files, no folders, only bytes under a chunk's number.
/// offload implements it.
class SpillStore {
 public:
  virtual ~SpillStore() = default;

  /// Starts to store `bytes` as the contents of `chunk`; the caller keeps them unchanged until the event. `checksums`
  /// are those of the blocks of block_ends, or empty where the caller has none. Errors (by the event): io,
  /// does_not_fit.
  virtual Event write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t> checksums) = 0;
  /// Starts to read the contents of the last write into `bytes`, of the same size; waits for a write that is still
  /// under way. Errors (by the event): io.
  virtual Event read(ChunkId chunk, BufferView bytes) = 0;
  /// Gives up the contents of `chunk` and their room.
  virtual void forget(ChunkId chunk) = 0;
  /// Whether `n_bytes` more can be written, for what `label` names. Errors: does_not_fit, where contents have to be given
  /// up before. A store that cannot tell has room.
  virtual Result<void> check_room(std::uint64_t /*n_bytes*/, const std::string& /*label*/) const { return {}; }

  /// The ends of the blocks of `n_bytes` that have a checksum each; empty where the store keeps no checksums, or makes
  /// them faster itself.
  virtual std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const = 0;
  /// The checksum of one block. Threads: any.
  virtual std::uint64_t checksum(BufferView block) const = 0;
};

}  // namespace castor
