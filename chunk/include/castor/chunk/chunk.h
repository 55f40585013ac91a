// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/event.h>
#include <castor/memory/tier.h>

namespace castor {

using ChunkId = std::uint32_t;

/// What a chunk holds. All kinds move by the same rules.
enum class ChunkKind : std::uint8_t { payload, gradient, state, activation, undo };

/// `payload`, `gradient`, `state`, `activation`, `undo`, as traces spell them.
const char* name(ChunkKind kind);

/// Of the blocks of a chunk's bytes (SpillStore::block_ends).
using Checksums = std::shared_ptr<std::vector<std::uint64_t>>;  // owners: the copy, and whoever makes them

/// One chunk in one tier's memory.
struct ChunkCopy {
  Buffer buffer;
  Event arrived;               ///< the bytes are there
  Checksums checksums;         ///< known once they are; null: nobody made them
  std::vector<Event> readers;  ///< copies and writes that read this one
  std::uint32_t n_pins = 0;
  bool current = false;  ///< holds (or will hold, once arrived) the newest contents
  bool leaving = false;  ///< freed as soon as it has arrived and every reader is done

  /// True when nothing asynchronous touches the bytes any more.
  bool quiet() const;
  /// Blocks until one more of what is under way has ended, or about as long as `limit`.
  void wait_for_one(std::chrono::nanoseconds limit) const;
  /// `reader` reads the bytes. Readers that are done and went well are forgotten.
  void add_reader(Event reader);
  /// Blocks until every reader is done. Errors: the first that one ended with.
  Result<void> settle_readers();
};

/// A flat buffer and the copies of it. At least one place is current as long as the chunk has contents.
struct Chunk {
  ChunkKind kind = ChunkKind::payload;
  std::uint64_t n_bytes = 0;
  std::string label;                ///< for messages: "payload 12 (blocks.3.attn.qkv.weight …)"
  std::array<ChunkCopy, 2> copies;  ///< device, host
  bool nvme_current = false;
  bool nvme_held = false;  ///< there is room for it in the spill store, current or not

  const ChunkCopy& at(Tier tier) const { return copies.at(index(tier)); }
  ChunkCopy& at(Tier tier) { return copies.at(index(tier)); }
  /// True where the newest contents are in `tier` to stay; a copy that is leaving does not count.
  bool resident(Tier tier) const { return tier == Tier::nvme ? nvme_current : at(tier).current && !at(tier).leaving; }
  bool pinned() const { return copies[0].n_pins + copies[1].n_pins > 0; }
  bool has_contents() const { return resident(Tier::device) || resident(Tier::host) || nvme_current; }
  /// True where dropping the copy in `tier` loses nothing.
  bool clean(Tier tier) const;
};

}  // namespace castor
