// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <castor/chunk/chunk.h>
#include <castor/chunk/copy_memory.h>
#include <castor/chunk/host_wait.h>
#include <castor/chunk/link_bytes.h>
#include <castor/chunk/lower_tier.h>
#include <castor/chunk/spill_store.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>

namespace castor {

class CopyLanes;
class MoveLog;

/// Keeps account of which tiers hold each chunk's newest contents, and executes single moves of chunks between the
/// tiers. It knows no policy (the caller decides which chunk moves) and no file (the lowest tier is a SpillStore).
///
/// Every call that needs memory allocates in one tier only, so that a refused caller knows where to make room.
/// Copies run on the `up` and `down` lanes beside the compute stream: an upload starts after all work that was queued
/// on the compute stream when the last device slot was given up (the last user of its own slot is part of it), a
/// download after the work that wrote the bytes. Code that reads a copy waits for the event that the call returns.
///
/// Threads: one thread at a time.
class ChunkManager {
 public:
  /// All but the listener are borrowed and must outlive the manager. `spill` may be null: then there is no tier below
  /// the host.
  struct Places {
    MemoryResource& device;
    MemoryResource& host;
    SpillStore* spill;
    Stream& compute;
    Stream& up;
    Stream& down;
    Timeline& timeline;
    CopyMemory::Listener device_release = {};  ///< may be empty
  };

  explicit ChunkManager(const Places& places);
  /// Waits for the copies under way, whose memory must stay until they have ended.
  ~ChunkManager();
  ChunkManager(const ChunkManager&) = delete;
  ChunkManager& operator=(const ChunkManager&) = delete;

  /// From now on the thread waits by `wait` for reads and writes of the spill store and for work of the host that
  /// touches the host's copies, which a drive can hold up; empty: as long as they take. Waits for copies on the device
  /// are not affected.
  void wait_by(HostWait wait);

  /// A new chunk without contents.
  ChunkId add(ChunkKind kind, std::uint64_t n_bytes, std::string label);
  const Chunk& chunk(ChunkId id) const { return chunks_.at(id); }
  /// All chunks, in the order of their registrations.
  IdRange<ChunkId> ids() const { return chunks_.ids(); }

  /// Makes memory for the chunk in `tier` (device or host) with undefined contents, unless it is there already. The
  /// copies elsewhere stay current until `written`. Errors: does_not_fit in `tier`, and those of the HostWait; then
  /// nothing has changed. Those of `settle`, where the copy is there and current.
  [[nodiscard]] Result<BufferView> open(ChunkId id, Tier tier);

  /// The memory of the copy in `tier`, for changes of its contents: waits until every reader of the old contents is
  /// done, but not for the copy's arrival. Requires: the copy is current (ContractViolation). Errors: those of a
  /// reader, after which this copy is the only current one, as in `settle`; those of the HostWait.
  [[nodiscard]] Result<BufferView> edit(ChunkId id, Tier tier);

  /// Work that is queued on the compute stream from now on runs after the arrival of the device's copy, and copies that
  /// are started from now on do as well: the copy's memory may be reused before the bytes have arrived. On a host
  /// device the call waits. Requires: the copy is current (ContractViolation). Errors: those of the wait.
  [[nodiscard]] Result<void> join(ChunkId id);

  /// Work that ends with `event` writes part of the copy in `tier`, `n_bytes` of it, from the device's memory; after
  /// the event the copy is complete and the only current one.
  void arriving(ChunkId id, Tier tier, std::uint64_t n_bytes, Event event);

  /// Brings the newest contents to `tier` from the next tier that has them; returns the event of their arrival. A copy
  /// that is there already costs nothing, one that was leaving is kept, and one whose bytes failed to arrive is brought
  /// again. Requires: contents on a neighbouring tier (ContractViolation). Errors: does_not_fit in `tier`, and those of
  /// the HostWait; then nothing has changed.
  [[nodiscard]] Result<Event> fetch(ChunkId id, Tier tier);

  /// Two chunks swap their memory in `tier`, with its contents, checksums, arrival and readers. The copies elsewhere
  /// and the pins stay. Requires: memory of one size, none of it leaving (ContractViolation).
  void exchange(ChunkId a, ChunkId b, Tier tier);

  /// The copy in `tier` is the only current one from now on, and all others are dropped: it was written by work that is
  /// queued on the compute stream or done on this thread, or will have been written when `done` is reached.
  void written(ChunkId id, Tier tier, Event done = {});

  /// `checksums` are those of the host's bytes once the `done` of the last `written` is reached, so that the spill
  /// store need not make them. They count until the bytes change again.
  void checked(ChunkId id, Checksums checksums) { chunks_.at(id).at(Tier::host).checksums = std::move(checksums); }

  /// Starts to give the memory in `tier` back: at once where a current copy is elsewhere, after a write to the spill
  /// store for the last copy on the host. Requires: not pinned, and not the last copy on the device (fetch it to the
  /// host first). Errors: usage where the last copy would go and there is no spill store.
  [[nodiscard]] Result<void> release(ChunkId id, Tier tier);

  /// Waits until nothing asynchronous touches the copy in `tier`. Errors: that of its arrival; then the copy is not
  /// current, and its source still is. That of the first reader that failed; since that reader may have been the copy
  /// to another tier, this copy becomes the only current one, as after `written`, and stays.
  Result<void> settle(ChunkId id, Tier tier);

  /// Forgets the contents everywhere. Waits for their read or write in the spill store, if one is under way. Requires:
  /// not pinned. Errors: those of the HostWait; then nothing has changed.
  [[nodiscard]] Result<void> discard(ChunkId id);

  void pin(ChunkId id, Tier tier) { ++chunks_.at(id).at(tier).n_pins; }
  void unpin(ChunkId id, Tier tier) { --chunks_.at(id).at(tier).n_pins; }

  /// `reader` reads the copy in `tier`; its memory stays until then.
  void read_until(ChunkId id, Tier tier, Event reader) { chunks_.at(id).at(tier).add_reader(std::move(reader)); }

  /// Frees the memory of copies that have finished leaving `tier`; returns the bytes that became free. Errors: those of
  /// a write to the spill store; then the copy stays and is again the only current one.
  [[nodiscard]] Result<std::uint64_t> reap(Tier tier);

  /// Waits for every copy and write under way. Errors: the first failure.
  [[nodiscard]] Result<void> drain();

  /// Bytes that went over each link so far.
  const LinkBytes& moved() const;

  /// The memory of the copies, among it that of copies that are leaving.
  const CopyMemory& memory() const { return memory_; }
  /// The tier below the host.
  LowerTier& below() { return below_; }

 private:
  IndexedVector<ChunkId, Chunk> chunks_;
  HostWait host_wait_;
  const std::unique_ptr<MoveLog> log_;
  const std::unique_ptr<CopyLanes> lanes_;
  CopyMemory memory_;
  LowerTier below_;
};

}  // namespace castor
