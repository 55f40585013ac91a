// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/chunk_manager.h>

#include "room_maker.h"
#include "waits.h"

namespace castor {

/// Brings chunks to a tier hop by hop, and makes room where a tier is full. Records no access: the mover does.
///
/// Threads: those of the mover.
class ChunkFetcher {
 public:
  /// Borrowed.
  struct Parts {
    ChunkManager& chunks;
    Waits& waits;
    RoomMaker& room;
  };

  explicit ChunkFetcher(const Parts& parts) : parts_(parts) {}

  /// Starts the copies that bring the contents of `chunk` to `tier`. Errors: as StatefulTensorMgr::begin; then no
  /// memory is held that was made for this.
  [[nodiscard]] Result<void> bring(ChunkId chunk, Tier tier);
  /// Makes memory for new contents of `chunk` in `tier`. Errors: as bring.
  [[nodiscard]] Result<BufferView> open(ChunkId chunk, Tier tier);
  /// StatefulTensorMgr::push_down.
  [[nodiscard]] Result<void> push_down(ChunkId chunk, Tier tier);
  /// Releases the memory of `chunk` in `tier` that was to receive contents and has none, unless it is pinned.
  void give_up(ChunkId chunk, Tier tier);

 private:
  Result<void> bring_up(ChunkId chunk);
  Result<void> bring_up_again(ChunkId chunk);
  Result<void> hop(ChunkId chunk, Tier tier);

  const Parts parts_;
};

}  // namespace castor
