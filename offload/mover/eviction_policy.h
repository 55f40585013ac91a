// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/mover/move_guide.h>
#include <castor/mover/planned_moves.h>

namespace castor {

/// A chunk that could leave a tier now.
struct EvictionCandidate {
  ChunkId chunk{};
  std::uint64_t next_use = 0;  ///< moments until its next use there; AccessTrace::kNever where unknown or never
  std::uint64_t last_use = 0;  ///< count of moments when it was last needed there
  bool clean = false;          ///< leaves without a transfer
  bool unwanted = false;       ///< the plan, or its rest, puts it elsewhere
  bool pending = false;        ///< its bytes are still being copied or computed
  bool once = false;           ///< each iteration uses it once, as far as is known
  bool goes_up = false;        ///< leaves the host for the device, since nothing lies below
};

/// The index of the chunk to evict where a trace tells the future: an unwanted chunk, else the chunk needed farthest in
/// the future; among equals a clean one, then the one used longest ago. A pending chunk only where all are, and of
/// these the one used longest ago. One that goes up only where all do. Pure. Requires: at least one candidate.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
std::size_t farthest_next_use(std::span<const EvictionCandidate> candidates);

/// The index of the chunk to evict while no trace tells the future: an unwanted chunk, else one that is not pending. Of
/// these a chunk used once an iteration is first, the one used last before others: its next use is the farthest, and
/// least recently used would miss every use of a cycle that does not fit. Else the chunk used longest ago; among equals
/// a clean one. One that goes up only where all do. Pure. Requires: at least one candidate.
std::size_t by_recency(std::span<const EvictionCandidate> candidates);

/// Decides which chunk leaves when a tier is full, from the trace, the plan and the uses so far.
///
/// Threads: those of the mover.
class EvictionPolicy {
 public:
  /// Borrowed.
  EvictionPolicy(ChunkManager& chunks, const PlannedMoves& planned) : chunks_(chunks), planned_(planned) {}

  /// Counts a moment that begins.
  void begin_moment() { ++clock_; }
  /// Records that the moment needs `id` in `tier`.
  void note_use(ChunkId id, Tier tier);

  /// The chunk, other than `wanted`, to evict from `tier`; nothing where none can leave: every copy there is pinned, or
  /// the only one of its chunk without a tier below. Chunks may go up where `free_above_bytes`, of the device, are
  /// given: those that the plan wants there alone, those that came from there and whose copy has not left yet, and those
  /// that it wants there too and that fit.
  std::optional<EvictionCandidate> choose(Tier tier, ChunkId wanted, const MoveGuide& guide,
                                          std::optional<std::uint64_t> free_above_bytes) const;

 private:
  std::vector<EvictionCandidate> candidates(Tier tier, ChunkId wanted, const MoveGuide& guide,
                                            std::optional<std::uint64_t> free_above_bytes) const;
  EvictionCandidate candidate(ChunkId id, Tier tier, const MoveGuide& guide) const;

  ChunkManager& chunks_;
  const PlannedMoves& planned_;
  std::uint64_t clock_ = 0;                                        ///< moments since the start
  std::array<IndexedVector<ChunkId, std::uint64_t>, 2> last_use_;  ///< per tier, by clock_
};

}  // namespace castor
