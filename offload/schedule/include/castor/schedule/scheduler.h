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
#include <castor/schedule/plan_conditions.h>
#include <castor/schedule/planner.h>

namespace castor {

/// Kinds of iterations between which a training alternates, each with a trace and a plan of its own. The kind of an
/// iteration is known before it begins.
enum class IterationKind : std::uint8_t { plain, speculative };
inline constexpr std::size_t kNIterationKinds = 2;

/// Decides when to plan and which trace is followed, and hands the mover its orders moment by moment.
///
/// The first iteration is recorded: the mover fetches chunks when they are needed, and evicts by recency. Then the
/// iteration is planned (plan_step). An iteration that leaves the trace falls back to recency; it is planned after it
/// has occurred twice in a row. One that breaks off and begins anew (evaluation between two steps: forward passes
/// alone) does not count as a different one.
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
    Planner* planner = nullptr;  ///< makes plans while another is carried out; null: at once
  };

  explicit Scheduler(const Parts& parts);
  ~Scheduler();

  /// Begins a moment: records it, takes its orders from the plan, and has the mover fetch the needs
  /// (StatefulTensorMgr::begin). At the first moment of an iteration a plan that is due is made, which takes up to a
  /// second; while another plan is carried out, the planner makes it beside the iterations, and it is put in force at
  /// the first moment at which it is there.
  [[nodiscard]] Result<void> begin(Moment moment, std::span<const Need> needs, Beside* beside = nullptr);
  /// StatefulTensorMgr::end.
  void end(std::span<const Need> needs, const Event& done = {}) { parts_.mover.end(needs, done); }
  /// A moment at which this thread waits for all work that is queued on the compute stream. Errors: those of the
  /// stream.
  [[nodiscard]] Result<void> join(Moment moment);

  /// Ends the iteration; the trace just recorded is expected from now on.
  void end_iteration();
  /// Ends an iteration that is not expected again: trace() and its plan stay as they are.
  void break_off();
  /// Selects the trace and the plan that the next iterations follow. Requires: between two iterations.
  void select(IterationKind kind) { next_kind_ = kind; }
  /// True from the first moment of an iteration to its end.
  bool in_iteration() const;
  /// True where the moment begun last is the first of its iteration but for updates: the iteration begins with it, or
  /// begins anew, and moments since the last iteration's end belong to none.
  bool at_start() const;

  /// The iteration that was recorded last, with the times known so far (settle_times).
  const AccessTrace& trace() const;
  /// Waits for the work of the host whose times settle_times, advance_plan and end_iteration need, which a drive can
  /// hold up. Errors: those of the mover's wait limits.
  [[nodiscard]] Result<void> await_times();
  /// Waits until the times of the last iteration are known, and stores them in the trace. Errors: as await_times.
  [[nodiscard]] Result<void> settle_times();
  /// True once the times of the trace's moments are final.
  bool timed() const;

  /// Has the plan that is due made, if one is, and puts one that has been made in force. Returns true where no plan is
  /// due or being made any more. Waits for the times of the last iteration. Requires: between two iterations.
  bool advance_plan();
  /// True where a plan is due or being made.
  bool plan_pending() const;
  /// The plan in force; null where there is none.
  const StepPlan* plan() const;
  /// The input of plans: the uses of trace(), room as the budgets say, costs, and whether there is a tier below the
  /// host.
  MoveProblem problem() const;
  /// That of plans which are begun now.
  PlanToken token() const;
  /// The conditions of plans now: problem() but for the trace.
  PlanConditions conditions() const;
  /// A lower bound of an iteration that follows the plan; nothing while there is no plan, or no times. Does not wait:
  /// it uses the times that are known by now, or were forecast.
  std::optional<StepBound> bound() const;

  /// Expects the next iterations to follow `trace`, and puts `plan` in force, which was made for it under conditions().
  /// Requires: between two iterations.
  void expect(AccessTrace trace, StepPlan plan);
  /// As above, and the plan is made when the next iteration begins. That iteration may lack updates that the trace has,
  /// because they were made before it.
  void expect(AccessTrace trace);
  /// Forgets traces and plans of all kinds: the needs of moments have changed.
  void forget_trace();

 private:
  class Course;

  void bring_plan();
  void make_plan();
  void carry_out(const MoveProblem& problem, StepPlan plan);
  void switch_course();

  const Parts parts_;
  InlinePlanner at_once_;
  Planner& planner_;
  std::array<std::unique_ptr<Course>, kNIterationKinds> courses_;
  Course* course_;  ///< of the iteration under way, or of the last one
  IterationKind next_kind_ = IterationKind::plain;
  std::uint64_t n_forgotten_ = 0;
};

}  // namespace castor
