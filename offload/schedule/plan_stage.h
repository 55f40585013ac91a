// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace castor {

/// How far the plan of a trace has come.
enum class PlanStage : std::uint8_t {
  recording,  ///< no trace has been planned since the traces were forgotten
  changed,    ///< the last iteration was another than the one before; if it comes again it is planned
  due,        ///< a plan is to be made before the next moment
  refused,    ///< no plan of this trace fits; chunks come when they are needed
  planned,    ///< a plan is carried out
  replan,     ///< a plan is carried out, and another one is to be made now that the times of its moments are known
};
inline constexpr std::size_t kNPlanStages = 6;

/// What happens to a trace.
enum class PlanEvent : std::uint8_t {
  repeated,     ///< an iteration ended that went as the trace
  differed,     ///< an iteration ended that did not, and is the trace now
  times_known,  ///< the times of the trace's moments are final
  made,         ///< a plan was made
  failed,       ///< no plan was found
  given,        ///< a trace was given that iterations are expected to follow
  forgotten,    ///< the trace does not hold any more
};
inline constexpr std::size_t kNPlanEvents = 7;

/// The stage that follows `stage` at `event`. Every pair is legal: an event that does not concern a stage leaves it.
constexpr PlanStage next_stage(PlanStage stage, PlanEvent event) {
  using enum PlanStage;
  constexpr std::array<std::array<PlanStage, kNPlanEvents>, kNPlanStages> table = {{
      // repeated, differed, times_known, made,      failed,    given,    forgotten
      {due,        due,      recording,   planned,   refused,   due,      recording},  // recording
      {due,        changed,  changed,     planned,   refused,   due,      recording},  // changed
      {due,        changed,  due,         planned,   refused,   due,      recording},  // due
      {refused,    changed,  refused,     planned,   refused,   due,      recording},  // refused
      {planned,    changed,  replan,      planned,   planned,   due,      recording},  // planned
      {replan,     changed,  replan,      planned,   planned,   due,      recording},  // replan
  }};
  return table[static_cast<std::size_t>(stage)][static_cast<std::size_t>(event)];
}

/// True where a plan is to be made.
constexpr bool plan_is_due(PlanStage stage) { return stage == PlanStage::due || stage == PlanStage::replan; }

}  // namespace castor
