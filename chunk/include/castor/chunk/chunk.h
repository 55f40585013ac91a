// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/chunk/ids.h>
#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/tier.h>

namespace castor {

/// The kind of a chunk's contents. All kinds move by the same rules.
enum class ChunkKind : std::uint8_t { payload, gradient, state, activation, undo };

/// `payload`, `gradient`, `state`, `activation`, `undo`, as traces spell them.
const char* name(ChunkKind kind);

/// One checksum for each block of a chunk's bytes (SpillStore::block_ends).
using Checksums = std::shared_ptr<std::vector<std::uint64_t>>;  // owners: the copy, and the job that computes them

/// One chunk in one tier's memory.
struct ChunkCopy {
  Buffer buffer;
  Event arrived;               ///< reached once the bytes are there
  Checksums checksums;         ///< of the bytes, valid once `arrived` is reached; null where none were made
  std::vector<Event> readers;  ///< copies and writes that read this one
  std::uint32_t n_pins = 0;
  bool current = false;  ///< holds (or will hold, once arrived) the newest contents
  bool leaving = false;  ///< freed once it has arrived, every reader is done and no pin is left

  /// True once nothing asynchronous touches the bytes any more.
  bool quiet() const;
  /// Blocks until the arrival, or else one more reader, has ended, or about as long as `limit`.
  void wait_for_one(std::chrono::nanoseconds limit) const;
  /// `reader` reads the bytes. Drops earlier readers that have ended without an error.
  void add_reader(Event reader);
  /// Blocks until every reader is done, and drops them. Errors: that of the first reader that failed.
  Result<void> settle_readers();
};

/// A flat buffer and its copies. At least one tier is current as long as the chunk has contents.
struct Chunk {
  ChunkKind kind = ChunkKind::payload;
  std::uint64_t n_bytes = 0;
  std::string label;                ///< for messages: "payload 12 (blocks.3.attn.qkv.weight …)"
  std::array<ChunkCopy, 2> copies;  ///< device, host
  bool nvme_current = false;
  bool nvme_held = false;  ///< it has room in the spill store, with current contents or not
  Event nvme_moved;        ///< the end of its last read or write in the spill store

  const ChunkCopy& at(Tier tier) const { return copies.at(index(tier)); }
  ChunkCopy& at(Tier tier) { return copies.at(index(tier)); }
  /// True where the newest contents are in `tier`; a copy that is leaving does not count.
  bool resident(Tier tier) const { return tier == Tier::nvme ? nvme_current : at(tier).current && !at(tier).leaving; }
  bool pinned() const { return copies[0].n_pins + copies[1].n_pins > 0; }
  bool has_contents() const { return resident(Tier::device) || resident(Tier::host) || nvme_current; }
  /// True where dropping the copy in `tier` loses no contents.
  bool clean(Tier tier) const;
};

}  // namespace castor
