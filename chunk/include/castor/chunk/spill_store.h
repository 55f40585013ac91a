// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/event.h>

namespace castor {

/// The tier below host memory, as the chunk layer sees it: no files, no folders, just bytes under a chunk's number.
/// offload implements it.
class SpillStore {
 public:
  virtual ~SpillStore() = default;

  /// Starts to store `bytes` as the contents of `chunk`; they must stay as they are until the event. `checksums`: of the
  /// blocks that block_ends says, where whoever wrote the bytes has made them; else empty. Errors (by the event): io,
  /// does_not_fit.
  virtual Event write(std::uint32_t chunk, BufferView bytes, std::span<const std::uint64_t> checksums) = 0;
  /// Starts to read the last contents written back into `bytes`, of the same size; a write still under way is waited
  /// for. Errors (by the event): io.
  virtual Event read(std::uint32_t chunk, BufferView bytes) = 0;
  /// The contents are not needed any more.
  virtual void forget(std::uint32_t chunk) = 0;

  /// Where the blocks of `n_bytes` end that have a checksum each; empty where there are none, or the store had better make them.
  virtual std::vector<std::uint64_t> block_ends(std::uint64_t n_bytes) const = 0;
  /// By any thread.
  virtual std::uint64_t checksum(BufferView block) const = 0;
};

}  // namespace castor
