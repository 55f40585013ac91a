// SPDX-License-Identifier: Apache-2.0
#include "stream_trial.h"

#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include <castor/plan/stream_share.h>

#include "share_search.h"

namespace castor {
namespace {

std::string streams_kept(double share, double step_s, double without_s) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "%.0f %% of the optimizer states that are kept off the GPU are copied to it for their updates: %.3f s a step "
      "instead of %.3f",
      100 * share, step_s, without_s);
  return text;
}

/// Infinite where the step cannot be foreseen, or has no plan.
double foreseen_s(const Foresight& foresight, const Result<StatePlacement>& placement) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (!placement.ok()) return kNever;
  const auto foreseen = foresight.under(*placement);
  return foreseen.ok() && foreseen->plan.ok() ? foreseen->plan->estimate.step_s : kNever;
}

}  // namespace

StreamTrial::StreamTrial(EngineRooms& rooms, Placer& placer, bool chooses)
    : rooms_(rooms), placer_(placer), stage_(chooses ? StreamStage::timing : StreamStage::over), next_(rooms) {
  if (chooses) rooms.calls.start();
}

Result<void> StreamTrial::after_step() {
  steps_.note(rooms_.timeline.now_ns());
  if (rooms_.scheduler->plan() == nullptr) as_forecast_ = false;
  switch (stage_) {
    case StreamStage::timing: return begin();
    case StreamStage::searching: return take_found();
    case StreamStage::preparing: return advance();
    case StreamStage::trying: return judge();
    case StreamStage::over: return {};
  }
  return {};
}

bool StreamTrial::knows_step() const { return rooms_.scheduler->timed() || (as_forecast_ && steps_.settled()); }

/// Begins once the plan is in force that is made from the final times of an iteration without streams.
Result<void> StreamTrial::begin() {
  if (!rooms_.scheduler->timed()) return {};
  CASTOR_TRY(rooms_.scheduler->settle_times());
  if (!rooms_.scheduler->advance_plan()) return {};
  without_streams_ =
      std::make_shared<const IterationRecord>(IterationRecord{rooms_.scheduler->trace(), rooms_.calls.last()});
  without_s_ = steps_.median_s();
  rooms_.calls.stop();
  placer_.hold_speculation();
  const StepPlan* const plan = rooms_.scheduler->plan();
  const double modelled = plan ? modelled_share(*plan) : 0;
  if (modelled == 0) return stage_ = StreamStage::over, Result<void>();
  search(modelled, plan->estimate.step_s);
  return take_found();
}

double StreamTrial::modelled_share(const StepPlan& plan) const {
  const AccessTrace& trace = rooms_.scheduler->trace();
  const UpdateLoad load =
      update_load(trace, trace.seconds(), plan.estimate, rooms_.memory->link_costs(), placer_.host_state_bytes());
  return stream_share(load, without_s_);
}

void StreamTrial::search(double modelled, double without_s) {
  const auto foresight = std::make_shared<const Foresight>(rooms_, without_streams_, rooms_.optimizer->speculates());
  found_ = std::make_unique<Draft<double>>(*rooms_.planner, [=, placement_of = placer_.placements_by_share()] {
    return search_share(modelled, without_s, [&](double share) { return foreseen_s(*foresight, placement_of(share)); });
  });
  stage_ = StreamStage::searching;
}

Result<void> StreamTrial::take_found() {
  if (!found_->ready()) return {};
  const double share = std::exchange(found_, nullptr)->take();
  if (share == 0) return stage_ = StreamStage::over, Result<void>();
  return prepare(share);
}

Result<void> StreamTrial::prepare(double share) {
  CASTOR_ASSIGN(StatePlacement placement, placer_.placements_by_share()(share));
  next_.prepare(std::move(placement), without_streams_);
  next_share_ = share;
  stage_ = StreamStage::preparing;
  return advance();
}

/// Uses the next share from the next step on, if it is prepared.
Result<void> StreamTrial::advance() {
  CASTOR_ASSIGN(const NextPlacement::Progress progress, next_.advance());
  if (progress == NextPlacement::Progress::preparing) return {};
  placer_.adopted_streams(next_share_);
  if (next_share_ > 0) without_s_ = steps_.median_s();
  steps_.forget();
  as_forecast_ = progress == NextPlacement::Progress::as_forecast;
  stage_ = next_share_ > 0 ? StreamStage::trying : StreamStage::over;
  return {};
}

/// What steps do not tell apart the forecast has decided, in the same way each time.
Result<void> StreamTrial::judge() {
  if (!knows_step()) return {};
  if (steps_.median_s() > (1 + RecentSteps::kLeastDifference) * without_s_) return prepare(0);
  rooms_.log(CASTOR_LOG_INFO, streams_kept(placer_.stream_share(), steps_.median_s(), without_s_));
  stage_ = StreamStage::over;
  return {};
}

}  // namespace castor
