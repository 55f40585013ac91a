// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/plan/access_trace.h>

namespace castor {

/// What the update of one payload chunk works on.
struct UpdatedChunk {
  std::uint32_t number = 0;  ///< of its update moments
  ChunkId payload = 0;
  std::uint64_t tile_bytes = 0;    ///< of the states that one moment updates
  std::vector<ChunkId> gradients;  ///< those that may be in use
  bool overwrites = false;         ///< its first moment does not look at the weights, unless it may be taken back
};

/// How an iteration goes that went as `trace` while the host updated `streamed`, once their states come to the device for
/// that: in the place where they were updated or, `at_next_use`, after a norm, right before a forward pass first needs their
/// weights. What neither streams nor computes there is as it was; its times are those of `trace`, and those of the updates
/// guessed.
AccessTrace with_streams(const AccessTrace& trace, std::span<const UpdatedChunk> streamed, bool at_next_use);

}  // namespace castor
