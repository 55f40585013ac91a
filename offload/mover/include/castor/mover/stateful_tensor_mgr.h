// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/budget.h>
#include <castor/plan/access_trace.h>
#include <castor/mover/eviction_policy.h>
#include <castor/plan/step_bound.h>
#include <castor/schedule/step_model.h>

namespace castor {

class IterationFollower;
class PlanReplay;

/// Ways that the iterations of a training may go, of which it is known before each begins which it will be.
enum class Way : std::uint8_t { usual, other };
inline constexpr std::size_t kNWays = 2;

/// A moment's work that others do, beside the thread that trains.
struct Beside {
  WorkTimer& timer;               ///< of who does it; borrowed
  std::vector<Event> after = {};  ///< what begin finds that it must wait for
};

/// The only mover. At every moment it brings what the moment needs to where it is needed, and carries out the plan: lets
/// go what the plan wants elsewhere, and starts what the next moments need.
///
/// The first iteration records the trace, brings what is needed when it is needed, and evicts by how long ago each chunk
/// was used. Then the iteration is planned (plan_step). What the plan did not foresee evicts by farthest next use. An
/// iteration that takes another way falls back to recency; it is planned anew when it has come twice in a row. One that
/// breaks off and begins anew (evaluation between two steps: forward passes alone) is no other way. Of two ways that take turns
/// each has a trace and a plan of its own (take_way).
///
/// Threads: one thread at a time. Errors leave the chunks where they were; a moment whose begin failed has no end.
class StatefulTensorMgr {
 public:
  /// Id of waits that belong to no unit.
  static constexpr std::uint32_t kNoUnit = std::numeric_limits<std::uint32_t>::max();

  /// Borrowed; must outlive the manager. The budgets serve error messages; the resources behind `chunks` enforce them.
  StatefulTensorMgr(ChunkManager& chunks, const Budget& device, const Budget& host, Stream& compute, Timeline& timeline,
                    const LinkCosts& costs = kUsualLinkCosts);
  ~StatefulTensorMgr();

  /// Brings every need to its tier and pins it there. On return host copies are readable by this thread, and device
  /// copies by what is queued on the compute stream. Errors: does_not_fit with the figures of the tier; io.
  ///
  /// Where others do the moment's work, that is to wait for what is on its way, not this thread, and the moment is recorded
  /// as one beside the thread. Requires then: needs on the host alone (ContractViolation).
  [[nodiscard]] Result<void> begin(Moment moment, std::span<const Need> needs, Beside* beside = nullptr);

  /// Unpins what begin pinned, and declares what was updated or overwritten. Of work beside the thread `done` is the event
  /// of its end: what it changes arrives then, what it reads stays until then.
  void end(std::span<const Need> needs, const Event& done = {});

  /// A moment at which this thread waits for what the compute stream was given so far; counts as waiting. Errors: those of
  /// the stream.
  [[nodiscard]] Result<void> join(Moment moment);

  /// The iteration is over: the trace just recorded is the one to expect from now on.
  void end_iteration();
  /// The iteration is over and none like it is expected: trace() and its plan stay as they are.
  void break_off();
  /// From the next iteration on they go another way, or one that they have gone before: each of them is recorded and planned
  /// for itself. Of a training that goes on as it is only one is ever taken. Requires: between two iterations.
  void take_way(Way way) { next_way_ = way; }
  /// What is carried out from now on; null while there is no plan. Where one is due it is made here, or at the begin of
  /// the iteration, which takes up to a second.
  const StepPlan* plan();
  /// The iteration that was recorded last, with its times: those of the first few on a trace, for which this waits.
  const AccessTrace& trace() const;
  /// How long an iteration takes at least that goes as planned; nothing while there is no plan, or no times. Waits for
  /// nothing: of the times what is known by now, or was forecast.
  std::optional<StepBound> bound() const;
  /// True once it is known how long the moments of trace() take, and it has been planned for that.
  bool timed() const;
  /// True from the first moment of an iteration to its end.
  bool in_iteration() const;
  /// What plans are made with: the uses of trace(), room as the budgets say, costs, and whether there is a tier below.
  MoveProblem problem() const;

  /// The next iterations are expected to go as `trace` says, and `plan`, made of problem() for it, is carried out.
  /// Requires: between two iterations.
  void expect(AccessTrace trace, StepPlan plan);
  /// The same, and the plan is made at the begin of the next iteration. The first one may lack updates that the trace
  /// has: it finds them made.
  void expect(AccessTrace trace);
  /// A plan is carried out.
  bool planned() const { return course_->replay != nullptr; }

  /// Forgets the trace: what each moment needs has changed.
  void forget_trace();

  /// From the next plan on `chunk` is between its uses in `rest` alone; until then it is the first to give way elsewhere.
  void set_rest(ChunkId chunk, Places rest);

  /// Brings the contents of `chunk` to `tier` outside of any moment and waits for them. Errors: as begin.
  [[nodiscard]] Result<BufferView> look(ChunkId chunk, Tier tier);

  /// As look, and the contents stay there until unhold. Requires: not held there yet.
  [[nodiscard]] Result<BufferView> hold(ChunkId chunk, Tier tier);
  /// Up to the moment under way the chunk was needed there.
  void unhold(ChunkId chunk, Tier tier);

  /// The memory of `chunk` in `tier` for changes of part of its contents: brings them there (or makes memory where it
  /// has none yet), and waits until nobody reads the old ones, but not for what is still arriving. Errors: as begin.
  [[nodiscard]] Result<BufferView> edit(ChunkId chunk, Tier tier);

  /// Makes memory for new contents of `chunk` in `tier`, evicting as needed. Errors: as begin.
  [[nodiscard]] Result<BufferView> open(ChunkId chunk, Tier tier);

  /// ChunkManager::arriving, noted as part of the moment under way.
  void arriving(ChunkId chunk, Tier tier, std::uint64_t n_bytes, Event event);

  /// Forgets the contents of `chunk`; its next use must overwrite it. Requires: not pinned.
  void discard(ChunkId chunk);

  /// Moves the chunk out of `tier` to the tier below, if it is there and not pinned. Errors: as begin.
  [[nodiscard]] Result<void> push_down(ChunkId chunk, Tier tier);

  /// Has the contents of `chunks` on the tier below the host as well, and waits for that; what is there already is not
  /// written again. Copies above stay, but for those that came to the host for this. Between two iterations. Errors: as
  /// begin, and those of the writes: what could not be written is where it was.
  [[nodiscard]] Result<void> write_back(std::span<const ChunkId> chunks);

  /// Seconds this thread has stood still for data so far.
  double wait_seconds() const { return static_cast<double>(wait_ns_) * 1e-9; }

 private:
  Result<void> await(const Need& need, Beside* beside);
  Result<void> bring(ChunkId chunk, Tier tier);
  Result<void> start_write_back(ChunkId chunk);
  Result<void> hop(ChunkId chunk, Tier tier);
  Result<void> keep(ChunkId chunk, Tier tier);
  Result<void> prepare(const Need& need);
  Result<void> make_room(ChunkId wanted, Tier tier, const Error& refused);
  std::optional<ChunkId> unwanted_copy(Tier tier, ChunkId wanted) const;
  Result<void> evict(ChunkId wanted, Tier tier, const Error& refused);
  Result<void> wait_for_room(ChunkId wanted, Tier tier, const Error& refused);
  Result<std::uint64_t> wait_for_leaving(Tier tier);
  void abandon(std::span<const Need> needs);
  Result<void> wait_for(ChunkId chunk, Tier tier, bool all_have_room = false);
  template <typename Wait>
  auto waiting(Wait wait);
  std::vector<EvictionCandidate> candidates(Tier tier, ChunkId wanted) const;
  Places wanted_places(ChunkId id) const;
  Error full(ChunkId wanted, Tier tier, const Error& refused) const;
  std::uint64_t follow(Moment moment, std::span<const Need> needs, Beside* beside);
  void note(ChunkId chunk, Tier tier, Access access);
  void make_plan_if_due();
  void carry_out(const MoveProblem& problem, StepPlan plan);
  void settle_in();
  void drop_plan();
  void turn();
  void take_over_plan(std::uint64_t position);
  void send_on(std::optional<Tier> full = {});
  Result<void> carry_on();
  bool let_go_of(ChunkId chunk, Places stay, std::optional<Tier> full);
  Result<void> start_fetches();
  Result<bool> start_fetch(ChunkId chunk, Tier tier);
  bool steady() const;
  std::vector<std::uint64_t> chunk_bytes() const;
  IterationFollower& follower() const { return *course_->follower; }
  const Budget& budget(Tier tier) const { return tier == Tier::device ? device_ : host_; }

  ChunkManager& chunks_;
  const Budget& device_;
  const Budget& host_;
  Stream& compute_;
  Timeline& timeline_;
  const std::unique_ptr<EvictionPolicy> farthest_ = make_farthest_next_use();
  const std::unique_ptr<EvictionPolicy> by_recency_ = make_by_recency();

  /// What is known of iterations that go one way.
  struct Course {
    std::unique_ptr<IterationFollower> follower;
    std::unique_ptr<PlanReplay> replay;  ///< of the trace; null where it is not planned
    bool planned_once = false;           ///< since the trace was forgotten
    bool plan_tried = false;             ///< of the trace
    bool plan_due = false;
  };

  const LinkCosts costs_;
  std::array<Course, kNWays> courses_;
  Course* course_ = &courses_[0];  ///< of the iteration under way, or of the last one
  Way next_way_ = Way::usual;
  std::vector<Places> rest_;                            ///< by chunk: where it may be between its uses
  std::vector<Places> wanted_;                          ///< by chunk: where the plan wants it now
  std::vector<ChunkId> going_;                          ///< not yet where the plan wants them now
  std::deque<PlannedMove> fetches_;                     ///< started or waiting for room, not there yet
  std::uint64_t clock_ = 0;                             ///< moments since the start
  std::array<std::vector<std::uint64_t>, 2> last_use_;  ///< per tier and chunk, by clock_
  std::uint32_t unit_ = kNoUnit;                        ///< whose moment it is, for the timeline
  std::uint64_t wait_ns_ = 0;
};

}  // namespace castor
