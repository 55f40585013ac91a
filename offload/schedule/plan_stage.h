// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace castor {

/// The stage of planning a trace.
enum class PlanStage : std::uint8_t {
  recording,   ///< no trace has been planned since the traces were forgotten
  changed,     ///< the last iteration differed from the one before; it is planned if it repeats
  due,         ///< a plan is to be made before the next moment
  refused,     ///< no plan of this trace fits; chunks are fetched when they are needed
  planned,     ///< a plan is carried out
  replan,      ///< a plan is carried out; another is due, because the times of its moments are known
  replanning,  ///< a plan is carried out; another is made beside the iterations
};
inline constexpr std::size_t kNPlanStages = 7;

/// An event of a trace.
enum class PlanEvent : std::uint8_t {
  repeated,     ///< an iteration ended that followed the trace
  differed,     ///< an iteration ended that did not, and replaced the trace
  times_known,  ///< the times of the trace's moments are final
  made,         ///< a plan was made
  failed,       ///< no plan was found
  given,        ///< a trace was given that iterations are expected to follow
  forgotten,    ///< the trace is no longer valid
  begun,        ///< a plan is made from here on, beside the iterations
  outdated,     ///< the plan that was made beside them is out of date
};
inline constexpr std::size_t kNPlanEvents = 9;

/// The stage that follows `stage` at `event`, or nothing where the event is illegal there: a plan is made, or refused,
/// only where one is due or being made; beside the iterations only while another one is carried out; times are final
/// only of a trace that is planned; a trace is given only where none is known.
constexpr std::optional<PlanStage> next_stage(PlanStage stage, PlanEvent event) {
  using enum PlanStage;
  constexpr auto illegal = std::nullopt;
  constexpr std::array<std::array<std::optional<PlanStage>, kNPlanEvents>, kNPlanStages> table = {{
      // repeated, differed, times_known, made,    failed,  given,   forgotten, begun,      outdated
      {due,        due,      illegal,     illegal, illegal, due,     recording, illegal,    illegal},  // recording
      {due,        changed,  illegal,     illegal, illegal, illegal, recording, illegal,    illegal},  // changed
      {due,        changed,  illegal,     planned, refused, illegal, recording, illegal,    illegal},  // due
      {refused,    changed,  illegal,     illegal, illegal, illegal, recording, illegal,    illegal},  // refused
      {planned,    changed,  replan,      illegal, illegal, illegal, recording, illegal,    illegal},  // planned
      {replan,     changed,  replan,      illegal, illegal, illegal, recording, replanning, illegal},  // replan
      {replanning, changed,  replan,      planned, planned, illegal, recording, illegal,    replan},   // replanning
  }};
  return table[static_cast<std::size_t>(stage)][static_cast<std::size_t>(event)];
}

/// True where a plan is to be made.
constexpr bool plan_is_due(PlanStage stage) { return stage == PlanStage::due || stage == PlanStage::replan; }
/// True where a plan is carried out.
constexpr bool plan_in_force(PlanStage stage) {
  return stage == PlanStage::planned || stage == PlanStage::replan || stage == PlanStage::replanning;
}

}  // namespace castor
