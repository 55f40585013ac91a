// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include <castor/chunk/chunk.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/stream.h>

namespace castor {

/// The memory of the copies on device and host: allocates it, and frees the memory of a copy that is leaving as soon as
/// nothing asynchronous touches its bytes any more. Other rooms see it const, through ChunkManager::memory().
///
/// Threads: one thread at a time.
class CopyMemory {
 public:
  /// Called with each chunk whose current copy on the device starts to leave.
  using Listener = std::function<void(ChunkId)>;

  /// All but the listener are borrowed and must outlive the object. `device_release` may be empty.
  CopyMemory(IndexedVector<ChunkId, Chunk>& chunks, MemoryResource& device, MemoryResource& host, Stream& compute,
             Listener device_release = {})
      : chunks_(chunks), resources_{&device, &host}, compute_(compute), device_release_(std::move(device_release)) {}

  /// True where copies in `tier` are leaving.
  bool leaving(Tier tier) const { return !leaving_.at(index(tier)).empty(); }
  /// Blocks until one more event of the oldest copy that is leaving `tier` unpinned has been reached, or about as long
  /// as `limit`; false where there is no such copy.
  bool wait_for_leaving(Tier tier, std::chrono::nanoseconds limit) const;
  /// Gives back the memory that the resource of `tier` keeps for reuse, so that the tier's budget counts chunks alone.
  void trim(Tier tier) const { resources_.at(index(tier))->trim(); }

  /// Requires: the chunk has no memory in `tier`. Errors: does_not_fit; then nothing has changed.
  [[nodiscard]] Result<void> allocate(ChunkId id, Tier tier);
  /// The copy leaves `tier`: a later reap that finds it quiet frees its memory. Setting `leaving` to false keeps it.
  void drop(ChunkId id, Tier tier);
  /// The same for the copies on device and host; none of them is current any more.
  void drop_all(ChunkId id);
  /// Frees the memory of copies that are leaving `tier`, are quiet and not pinned; returns the bytes that became free.
  /// `settle` is called with each before, and may keep it. Errors: those of a `settle` that has kept its copy; the
  /// copies after it stay for the next call.
  [[nodiscard]] Result<std::uint64_t> reap(Tier tier, const std::function<Result<void>(ChunkId)>& settle);
  /// After this event of the compute stream nothing uses the device memory of a copy that was dropped.
  const Event& slots_free() const { return slots_free_; }

 private:
  IndexedVector<ChunkId, Chunk>& chunks_;
  const std::array<MemoryResource*, 2> resources_;  ///< by tier
  Stream& compute_;
  const Listener device_release_;
  std::array<std::deque<ChunkId>, 2> leaving_;  ///< by tier, in the order of their drops
  Event slots_free_;
};

}  // namespace castor
