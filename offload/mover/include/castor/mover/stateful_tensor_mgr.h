// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/budget.h>
#include <castor/mover/move_guide.h>
#include <castor/mover/planned_moves.h>
#include <castor/mover/wait_limits.h>

namespace castor {

class ChunkFetcher;
class EvictionPolicy;
class RoomMaker;
class Waits;

/// Work of a moment that runs beside the training thread, on a lane of the host.
struct Beside {
  WorkTimer& timer;               ///< of the lane; borrowed
  std::vector<Event> after = {};  ///< set by begin: the work waits for these events first
};

/// The mover: fetches the chunks that a moment needs to the tier where it needs them, pins them there, and carries out
/// the orders that the Scheduler takes from the plan. Its only decision is which chunk to evict where a tier is full
/// and no plan says.
///
/// Threads: one at a time. Errors leave the chunks where they were; a moment whose begin failed has no end.
class StatefulTensorMgr {
 public:
  /// Stands for no unit in the timeline's waits.
  static constexpr UnitId kNoUnit{std::numeric_limits<std::uint32_t>::max()};

  /// Borrowed; must outlive the mover.
  struct Parts {
    ChunkManager& chunks;
    const Budget& device;  ///< the budgets serve error messages; the resources behind `chunks` enforce them
    const Budget& host;
    Stream& compute;
    Timeline& timeline;
    WaitLimits wait_limits = {};
  };

  explicit StatefulTensorMgr(const Parts& parts);
  ~StatefulTensorMgr();

  // ---- moments: called by the Scheduler

  /// Fetches every need to its tier and pins it there. On return host copies are readable by this thread, and device
  /// copies by work that is queued on the compute stream. `unit`: for the timeline. Errors: does_not_fit with the
  /// figures of the tier; io; those of the wait limits.
  ///
  /// With `beside` the lane that does the work waits for arrivals, not this thread. Requires then: needs on the host
  /// alone (ContractViolation).
  [[nodiscard]] Result<void> begin(std::span<const Need> needs, Beside* beside = nullptr, UnitId unit = kNoUnit);

  /// Unpins the needs of a moment, and declares the copies that it updated or overwrote as the newest. With work beside
  /// the thread `done` is the event of its end: changed copies arrive at that event, and copies that the work reads
  /// stay until it.
  void end(std::span<const Need> needs, const Event& done = {});

  /// Waits for everything that was queued on the compute stream; counts as waiting. Errors: those of the stream, and of
  /// the wait limits.
  [[nodiscard]] Result<void> join_compute();
  /// Waits for `work` of the host (the drive, the team), however it ends; `awaited` names it in messages. Does not wait
  /// for work of a device's stream. Errors: those of the wait limits; the work goes on then, and keeps its bytes.
  [[nodiscard]] Result<void> join_host(const Event& work, const std::string& awaited);
  /// The same for work of the host of which `ended_within` says whether it has ended after waiting about as long as its
  /// argument.
  [[nodiscard]] Result<void> join_host(const std::function<bool(std::chrono::nanoseconds)>& ended_within,
                                       const std::string& awaited);

  /// Has `guide` follow the iterations from now on. Borrowed; until the first call there is no iteration and no trace.
  void guide_by(MoveGuide& guide);
  MoveGuide& guide() const;
  /// The moves of the Scheduler's plan that have begun.
  PlannedMoves& planned() { return *planned_; }

  // ---- chunks: called by their owners

  /// While it lives the guide is told of no access: someone reads what no later iteration will read again.
  class Aside {
   public:
    explicit Aside(StatefulTensorMgr& mover) : mover_(mover) { ++mover_.n_aside_; }
    ~Aside() { --mover_.n_aside_; }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;

   private:
    StatefulTensorMgr& mover_;
  };

  /// Fetches `chunk` to `tier` outside of any moment and waits for its arrival. Errors: as begin.
  [[nodiscard]] Result<BufferView> look(ChunkId chunk, Tier tier);

  /// As look, and the copy is pinned there until unhold. Requires: not held there yet.
  [[nodiscard]] Result<BufferView> hold(ChunkId chunk, Tier tier);
  /// Unpins a held copy: the moment under way is the last that needed `chunk` there.
  void unhold(ChunkId chunk, Tier tier);

  /// The memory of `chunk` in `tier`, for changes of part of its contents: fetches the contents (or makes memory where
  /// the chunk has none yet), and waits until no copy reads the old ones, but not for bytes that are still arriving.
  /// Errors: as begin.
  [[nodiscard]] Result<BufferView> edit(ChunkId chunk, Tier tier);

  /// Makes memory for new contents of `chunk` in `tier`, evicting as needed. Errors: as begin.
  [[nodiscard]] Result<BufferView> open(ChunkId chunk, Tier tier);

  /// ChunkManager::arriving, recorded as part of the moment under way.
  void arriving(ChunkId chunk, Tier tier, std::uint64_t n_bytes, Event event);

  /// Discards the contents of `chunk`; its next use must overwrite it. Waits for its read or write below the host, if
  /// one is under way. Requires: not pinned. Errors: those of the wait limits; then the contents stay.
  [[nodiscard]] Result<void> discard(ChunkId chunk);

  /// Moves the chunk out of `tier` to the tier below, if it is there and not pinned. Errors: as begin.
  [[nodiscard]] Result<void> push_down(ChunkId chunk, Tier tier);

  /// Writes the contents of `chunks` to the tier below the host, unless they are there already, and waits for the
  /// writes. Copies above stay, except host copies that were made for this. Between two moments. Errors: as begin,
  /// and those of the writes: a chunk that could not be written stays where it was.
  [[nodiscard]] Result<void> write_back(std::span<const ChunkId> chunks);

  /// Seconds that this thread has waited for data so far.
  double wait_seconds() const;

 private:
  void tell(const Need& need);
  Result<void> prepare(const Need& need);
  Result<void> await(const Need& need, Beside* beside);
  void abandon(std::span<const Need> needs);
  Result<void> start_write_back(ChunkId chunk);

  const Parts parts_;
  const std::unique_ptr<MoveGuide> no_guide_;
  const std::unique_ptr<PlannedMoves> planned_;
  const std::unique_ptr<Waits> waits_;
  const std::unique_ptr<EvictionPolicy> policy_;
  const std::unique_ptr<RoomMaker> room_;
  const std::unique_ptr<ChunkFetcher> fetcher_;
  std::uint32_t n_aside_ = 0;  ///< Asides that live
};

}  // namespace castor
