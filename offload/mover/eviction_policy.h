// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <castor/chunk/chunk.h>

namespace castor {

/// A chunk that could leave a tier now.
struct EvictionCandidate {
  ChunkId chunk{};
  std::uint64_t next_use = 0;  ///< moments until its next use there; AccessTrace::kNever where unknown or never
  std::uint64_t last_use = 0;  ///< count of moments when it was last needed there
  std::uint64_t n_bytes = 0;
  bool clean = false;     ///< leaves without a transfer
  bool unwanted = false;  ///< the plan, or its rest, puts it elsewhere
  bool pending = false;   ///< its bytes are still being copied or computed
  bool once = false;      ///< each iteration uses it once, as far as is known
};

/// Decides which chunk leaves when a tier is full. Pure.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  /// The index in `candidates` of the chunk to evict. Requires: at least one.
  virtual std::size_t choose(std::span<const EvictionCandidate> candidates) const = 0;
};

/// Chooses an unwanted chunk, else the chunk needed farthest in the future; among equals a clean one, then the one used
/// longest ago. Chooses a pending chunk only where all are, and of these the one used longest ago.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
std::unique_ptr<EvictionPolicy> make_farthest_next_use();

/// The order while no trace tells the future. Chooses an unwanted chunk, else one that is not pending. Of these a chunk
/// used once an iteration is first, the one used last before others: its next use is the farthest, and least recently
/// used would miss every use of a cycle that does not fit. Else the chunk used longest ago; among equals a clean one.
std::unique_ptr<EvictionPolicy> make_by_recency();

}  // namespace castor
