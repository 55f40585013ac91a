// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/chunk/chunk.h>
#include <castor/memory/stream.h>

#include "move_log.h"

namespace castor {

/// Copies chunks between device and host on two lanes beside the compute stream, and orders the three.
///
/// Threads: one thread at a time.
class CopyLanes {
 public:
  /// All are borrowed and must outlive the lanes.
  CopyLanes(Stream& compute, Stream& up, Stream& down, MoveLog& log)
      : compute_(compute), up_(up), down_(down), log_(log) {}

  /// Starts to copy the bytes from the host's memory to the device's, which nothing uses any more after `slot_free`.
  /// Waits until the host's bytes have arrived, because bytes whose read from NVMe failed must not reach the device.
  /// Errors: those of that wait, and of the lane's; then no copy has started.
  [[nodiscard]] Result<void> upload(ChunkId id, Chunk& chunk, const Event& slot_free);

  /// Starts to copy the bytes from the device's memory to the host's, after their arrival and all work queued on the
  /// compute stream. Errors: those of the lane's waits; then no copy has started.
  [[nodiscard]] Result<void> download(ChunkId id, Chunk& chunk);

  /// Work queued on the compute stream from now on runs after the arrival of `device`. Errors: those of the wait.
  [[nodiscard]] Result<void> join(ChunkCopy& device);

 private:
  Stream& compute_;
  Stream& up_;
  Stream& down_;
  MoveLog& log_;
};

}  // namespace castor
