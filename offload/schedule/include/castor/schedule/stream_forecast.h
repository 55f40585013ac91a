// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <castor/plan/access_trace.h>

namespace castor {

/// A payload chunk whose states are streamed, with the chunks that its update uses.
struct UpdatedChunk {
  std::uint32_t number = 0;  ///< of its update moments
  ChunkId payload = 0;
  std::uint64_t tile_bytes = 0;    ///< states that one moment updates
  std::vector<ChunkId> gradients;  ///< chunks that may hold its gradients
  bool overwrites = false;         ///< its first moment does not read the weights, unless it may be taken back
};

/// Forecasts the iteration that was recorded as `trace` while the host updated `streamed`, for a placement in which
/// their states are fetched to the device for the update: at the same place in the iteration or, if `at_next_use`,
/// after a norm, right before a forward pass first needs their weights. Moments that neither stream nor use such chunks
/// stay as in `trace`; their times are those of `trace`, and those of the updates are guesses.
AccessTrace with_streams(const AccessTrace& trace, std::span<const UpdatedChunk> streamed, bool at_next_use);

}  // namespace castor
