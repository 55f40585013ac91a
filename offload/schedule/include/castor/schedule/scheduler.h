// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <castor/chunk/chunk_manager.h>
#include <castor/memory/budget.h>
#include <castor/mover/stateful_tensor_mgr.h>
#include <castor/plan/links.h>
#include <castor/plan/step_bound.h>
#include <castor/plan/step_plan.h>

namespace castor {

class Course;

/// Kinds of iterations that a training takes in turn, each with a trace and a plan of its own. It is known before an iteration begins
/// which kind it will be.
enum class IterationKind : std::uint8_t { plain, speculative };
inline constexpr std::size_t kNIterationKinds = 2;

/// Decides when to plan and which trace is followed, and hands the mover its orders moment by moment.
///
/// The first iteration is recorded: the mover fetches what is needed when it is needed, and evicts by recency. Then the iteration
/// is planned (plan_step). An iteration that leaves the trace falls back to recency; it is planned when it has come twice in a row.
/// One that breaks off and begins anew (evaluation between two steps: forward passes alone) does not count as another.
///
/// Threads: those of the mover.
class Scheduler {
 public:
  /// Borrowed; must outlive the scheduler.
  struct Parts {
    StatefulTensorMgr& mover;
    ChunkManager& chunks;
    const Budget& device;  ///< the room that plans may use
    const Budget& host;
    Stream& compute;
    Timeline& timeline;
    LinkCosts costs = kUsualLinkCosts;
  };

  explicit Scheduler(const Parts& parts);
  ~Scheduler();

  /// A moment begins: records it, takes its orders from the plan, and has the mover fetch the needs (StatefulTensorMgr::begin). Where a
  /// plan is due it is made at the first moment of an iteration, which takes up to a second.
  [[nodiscard]] Result<void> begin(Moment moment, std::span<const Need> needs, Beside* beside = nullptr);
  /// StatefulTensorMgr::end.
  void end(std::span<const Need> needs, const Event& done = {}) { parts_.mover.end(needs, done); }
  /// A moment at which this thread waits for the work that the compute stream was given so far. Errors: those of the stream.
  [[nodiscard]] Result<void> join(Moment moment);

  /// The iteration is over; the trace just recorded is the one to expect from now on.
  void end_iteration();
  /// The iteration is over and none like it is expected: trace() and its plan stay as they are.
  void break_off();
  /// Selects the trace and the plan that the next iterations follow. Requires: between two iterations.
  void select(IterationKind kind) { next_kind_ = kind; }
  /// True from the first moment of an iteration to its end.
  bool in_iteration() const;

  /// The iteration that was recorded last. Its times are those known so far (settle_times).
  const AccessTrace& trace() const;
  /// Waits until the times of the last iteration are known, and takes them into the trace.
  void settle_times();
  /// True once the times of the trace's moments are final, and it has been planned for them.
  bool timed() const;

  /// Makes the plan that is due, if one is. Waits for the times of the last iteration.
  void plan_now();
  /// The plan that is carried out from now on; null where there is none.
  const StepPlan* plan() const;
  /// The input of plans: the uses of trace(), room as the budgets say, costs, and whether there is a tier below the host.
  MoveProblem problem() const;
  /// A lower bound of an iteration that goes as planned; nothing while there is no plan, or no times. Waits for nothing: it
  /// takes the times that are known by now, or were forecast.
  std::optional<StepBound> bound() const;

  /// The next iterations are expected to go as `trace` says, and `plan`, made of problem() for it, is carried out.
  /// Requires: between two iterations.
  void expect(AccessTrace trace, StepPlan plan);
  /// The same, and the plan is made at the begin of the next iteration. That iteration may lack updates that the trace has, because
  /// they were made before it.
  void expect(AccessTrace trace);
  /// Forgets traces and plans of all kinds: the needs of moments have changed.
  void forget_trace();

 private:
  void make_plan_if_due();
  void carry_out(const MoveProblem& problem, StepPlan plan);
  void switch_course();
  std::optional<MoveOrders> orders_at(std::uint64_t position) const;

  const Parts parts_;
  std::array<std::unique_ptr<Course>, kNIterationKinds> courses_;
  Course* course_;  ///< of the iteration under way, or of the last one
  IterationKind next_kind_ = IterationKind::plain;
};

}  // namespace castor
