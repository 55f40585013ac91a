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
  ChunkId chunk = 0;
  std::uint64_t next_use = 0;  ///< moments until it is needed there again; AccessTrace::kNever where unknown or never
  std::uint64_t last_use = 0;  ///< count of moments when it was last needed there
  std::uint64_t n_bytes = 0;
  bool clean = false;     ///< leaves without a transfer
  bool unwanted = false;  ///< it shall be elsewhere
  bool pending = false;   ///< its bytes are still on their way, or being worked out
  bool once = false;      ///< each iteration uses it once, as far as is known
};

/// Decides which chunk leaves when a tier is full. Pure.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  /// The place in `candidates` of the one that should go. Requires: at least one.
  virtual std::size_t choose(std::span<const EvictionCandidate> candidates) const = 0;
};

/// One that shall be elsewhere, else the chunk needed farthest in the future; among equals a clean one, then the one
/// used longest ago. One whose bytes are pending only after those that are there; of several the one used longest ago.
/// Source: Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
std::unique_ptr<EvictionPolicy> make_farthest_next_use();

/// What is left to do while nothing is known about the future. One that shall be elsewhere, else one that is there. Of these
/// one used once an iteration goes first, and of several the one used last: its next use is the farthest, where least recently
/// used would miss all of a cycle that does not fit. Else the one used longest ago; among equals a clean one.
std::unique_ptr<EvictionPolicy> make_by_recency();

}  // namespace castor
