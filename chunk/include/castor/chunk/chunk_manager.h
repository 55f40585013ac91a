// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <castor/chunk/chunk.h>
#include <castor/chunk/spill_store.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>

namespace castor {

/// Bytes that went over each link so far.
struct LinkBytes {
  std::uint64_t h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;

  LinkBytes& operator+=(const LinkBytes& more) {
    h2d += more.h2d, d2h += more.d2h, nvme_read += more.nvme_read, nvme_write += more.nvme_write;
    return *this;
  }
};

/// What lies where: executes single moves of chunks between the tiers and accounts for them. It knows no policy (which
/// chunk should go is the caller's question) and no file (the lowest tier is a SpillStore).
///
/// Every call that needs memory allocates in one tier only, so that a caller who is refused knows where to make room.
/// Copies run on the `up` and `down` lanes beside the compute stream: an upload starts after what the compute stream
/// was given before the last slot was given up (its own slot's last user among it), a download after what wrote the
/// bytes. Whoever computes waits for the event that the call returns.
///
/// Threads: one thread at a time.
class ChunkManager {
 public:
  /// All are borrowed and must outlive the manager. `spill` may be null: then there is no tier below the host.
  struct Places {
    MemoryResource& device;
    MemoryResource& host;
    SpillStore* spill;
    Stream& compute;
    Stream& up;
    Stream& down;
    Timeline& timeline;
  };

  explicit ChunkManager(const Places& places) : places_(places) {}
  /// Waits for the copies under way, whose memory must not go before them.
  ~ChunkManager();
  ChunkManager(const ChunkManager&) = delete;
  ChunkManager& operator=(const ChunkManager&) = delete;

  /// A new chunk without contents.
  ChunkId add(ChunkKind kind, std::uint64_t n_bytes, std::string label);
  const Chunk& chunk(ChunkId id) const { return chunks_.at(id); }
  std::uint32_t n_chunks() const { return static_cast<std::uint32_t>(chunks_.size()); }
  bool has_spill() const { return places_.spill != nullptr; }
  /// Null where there is no tier below the host.
  const SpillStore* spill() const { return places_.spill; }

  /// Called with each payload chunk whose device memory is about to go.
  void on_device_release(std::function<void(ChunkId)> listener) { device_release_ = std::move(listener); }

  /// Makes memory for the chunk in `tier` (device or host) with undefined contents, unless it is there already. The
  /// copies elsewhere stay current until `written`. Errors: does_not_fit in `tier`; then nothing has changed.
  [[nodiscard]] Result<BufferView> open(ChunkId id, Tier tier);

  /// The memory of the copy in `tier` for changes of its contents: waits until nobody reads the old ones. What arrives
  /// may still be on its way. Requires: the copy is current (ContractViolation). Errors: what a reader failed with.
  [[nodiscard]] Result<BufferView> edit(ChunkId id, Tier tier);

  /// What the compute stream runs from now on comes after the bytes of the copy on the device, as do copies that are
  /// started from now on: its memory may be handed on although they are still on their way. On a host device it waits.
  /// Requires: the copy is current (ContractViolation). Errors: those of the wait.
  [[nodiscard]] Result<void> join(ChunkId id);

  /// Part of the copy in `tier`, `n_bytes` of it, is being written from the device's memory by work that ends with
  /// `event`; after it the copy is complete and the only current one.
  void arriving(ChunkId id, Tier tier, std::uint64_t n_bytes, Event event);

  /// Brings the newest contents to `tier` from the next tier that has them; returns the event of their arrival. Being
  /// there already costs nothing, and a copy that was about to leave is kept. One whose bytes failed to come is brought
  /// again. Requires: contents on a neighbouring tier (ContractViolation). Errors: does_not_fit in `tier`; then nothing
  /// has changed.
  [[nodiscard]] Result<Event> fetch(ChunkId id, Tier tier);

  /// Two chunks change memory in `tier`, with what it holds and what is under way there. Neither's copies elsewhere change,
  /// and pins stay. Requires: memory of one size, none of it leaving (ContractViolation).
  void exchange(ChunkId a, ChunkId b, Tier tier);

  /// The copy in `tier` was written by work already queued on the compute stream or done on this thread, or will have been
  /// when `done` is reached: it is the only current one now, all others are dropped.
  void written(ChunkId id, Tier tier, Event done = {});

  /// Once what `written` said last is there, `checksums` are those of the host's bytes: the spill store need not make them.
  /// Until they change again.
  void checked(ChunkId id, Checksums checksums) { chunks_.at(id).at(Tier::host).checksums = std::move(checksums); }

  /// Starts to give the memory in `tier` back: at once where a current copy is elsewhere, after a write to the spill
  /// store for the last copy on the host. Requires: not pinned, and not the last copy on the device (fetch it to the
  /// host first). Errors: usage where the last copy would go and there is no spill store.
  [[nodiscard]] Result<void> release(ChunkId id, Tier tier);

  /// Starts to store the contents of the host's copy in the spill store as well, where they are not there already. What
  /// would take room there for the first time gets that of contents which are out of date. The copy stays; `settle` waits
  /// for the write. Requires: the copy is current (ContractViolation). Errors: usage where there is no spill store; those of
  /// what the copy waits for.
  [[nodiscard]] Result<void> write_back(ChunkId id);

  /// Waits until nothing asynchronous touches the copy in `tier`. Errors: those of its arrival; those of its readers:
  /// bytes that failed to go are then current here alone.
  Result<void> settle(ChunkId id, Tier tier);

  /// The contents are, from here on, what the spill store has under the chunk's number. Requires: not pinned.
  void spilled(ChunkId id);

  /// Forgets the contents everywhere. Requires: not pinned.
  void discard(ChunkId id);

  void pin(ChunkId id, Tier tier) { ++chunks_.at(id).at(tier).n_pins; }
  void unpin(ChunkId id, Tier tier) { --chunks_.at(id).at(tier).n_pins; }

  /// `reader` reads the copy in `tier`; its memory stays until then.
  void read_until(ChunkId id, Tier tier, Event reader) { chunks_.at(id).at(tier).add_reader(std::move(reader)); }

  /// Frees what has finished leaving `tier`; returns the bytes that became free. Errors: what a write to the spill store
  /// failed with; then the copy stays and is again the only one that is current.
  [[nodiscard]] Result<std::uint64_t> reap(Tier tier);
  /// Blocks until the first of what leaves `tier` has come further, or about as long as `limit`; false where nothing leaves
  /// that is not pinned.
  bool wait_for_leaving(Tier tier, std::chrono::nanoseconds limit) const;
  bool leaving(Tier tier) const { return !leaving_.at(index(tier)).empty(); }

  /// Gives back what the source of `tier`'s memory keeps for reuse, so that its budget counts chunks alone.
  void trim(Tier tier) { resource(tier).trim(); }

  /// Waits for every copy and write under way. Errors: the first failure.
  [[nodiscard]] Result<void> drain();

  const LinkBytes& moved() const { return moved_; }

 private:
  struct Move {
    Lane lane;
    ChunkId chunk;
    std::uint64_t start_ns;
    std::uint64_t n_bytes;
    Event done;
  };

  MemoryResource& resource(Tier tier) const { return tier == Tier::device ? places_.device : places_.host; }
  Result<void> allocate(ChunkId id, Tier tier);
  bool can_come_again(const Chunk& chunk, Tier tier) const;
  void drop(ChunkId id, Tier tier);
  void drop_copies(ChunkId id);
  Result<void> upload(ChunkId id);
  Result<void> download(ChunkId id);
  void read_spilled(ChunkId id);
  void take_outdated_room(std::uint64_t n_bytes);
  void forget_spilled(ChunkId id);
  template <typename Start>
  Event log_move(Lane lane, ChunkId id, std::uint64_t n_bytes, const Start& start);
  void settle_moves();
  void record(const Move& move);

  const Places places_;
  std::vector<Chunk> chunks_;
  std::array<std::deque<ChunkId>, 2> leaving_;   ///< per tier, in the order of their release
  std::array<std::deque<Move>, kNLanes> moves_;  ///< by lane: under way, not in the timeline yet
  std::array<std::uint64_t, kNLanes> last_end_ns_{};
  LinkBytes moved_;
  std::set<std::pair<std::uint64_t, ChunkId>> outdated_;  ///< held in the spill store for nothing, by bytes
  Event slots_left_;  ///< of the compute stream: after it nothing uses a device slot that was given up
  std::function<void(ChunkId)> device_release_;
};

}  // namespace castor
