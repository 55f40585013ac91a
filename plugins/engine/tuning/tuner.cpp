// SPDX-License-Identifier: Apache-2.0
#include "tuner.h"

#include <cstdio>
#include <string>
#include <utility>

#include <castor/plan/stream_share.h>

namespace castor {
namespace {

std::string streams_kept(const StreamTrial::Tried& best, double without_s) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "%.0f %% of the optimizer states that are kept off the GPU are copied to it for their updates: %.3f s a step "
      "instead of %.3f",
      100 * best.share, best.step_s, without_s);
  return text;
}

std::string threads_kept(const ThreadTrial& trial) {
  char text[160];
  std::snprintf(text, sizeof text, "%u of %u threads update during backward: %.3f s a step instead of %.3f",
                trial.best_threads(), trial.all_threads(), trial.best_s(), trial.with_all_s());
  return text;
}

}  // namespace

Tuner::Tuner(EngineRooms& rooms, Placer& placer)
    : rooms_(rooms), placer_(placer), next_(rooms), threads_(rooms.all_update_threads) {
  if (tunes() && tries_streams()) rooms.calls.start();
}

bool Tuner::tunes() const { return rooms_.measures() && rooms_.options.overlap_updates; }

bool Tuner::over() const {
  if (tunes() && tries_streams() && (!streams_.over() || next_.preparing())) return false;
  return knows_share() && (!tunes() || threads_.over());
}

Result<void> Tuner::after_step() {
  if (!tunes()) return {};
  if (tries_streams()) CASTOR_TRY(try_streams());
  if (!tries_streams() || (streams_.over() && !next_.preparing())) try_threads();
  return {};
}

bool Tuner::tries_streams() const { return !rooms_.options.stream_optim_frac; }

Result<void> Tuner::try_streams() {
  streams_.note_step(rooms_.timeline.now_ns());
  if (rooms_.scheduler->plan() == nullptr) as_forecast_ = false;
  if (next_.preparing()) return advance();
  if (streams_.over() || !knows_share()) return {};
  if (!streams_.begun()) {
    CASTOR_ASSIGN(const bool begins, begin_streams());
    if (!begins) return {};
  }
  const double share = streams_.begun() ? streams_.judge() : streams_.begin(modelled_share());
  if (streams_.over() && share > 0)
    rooms_.log(CASTOR_LOG_INFO, streams_kept(streams_.best(), streams_.without().step_s));
  if (share == placer_.stream_share()) return {};
  return prepare(share);
}

/// Records an iteration without streams once the plan is in force that is made from its final times; false before.
Result<bool> Tuner::begin_streams() {
  CASTOR_TRY(rooms_.scheduler->settle_times());
  if (!rooms_.scheduler->advance_plan()) return false;
  without_streams_ = std::make_shared<const NextPlacement::Basis>(
      NextPlacement::Basis{rooms_.scheduler->trace(), rooms_.calls.last()});
  rooms_.calls.stop();
  placer_.hold_speculation();
  return true;
}

Result<void> Tuner::prepare(double share) {
  CASTOR_ASSIGN(StatePlacement placement, placer_.with_streams(share));
  next_.prepare(std::move(placement), without_streams_);
  next_share_ = share;
  return advance();
}

/// Uses the next share from the next step on, if it is prepared.
Result<void> Tuner::advance() {
  CASTOR_ASSIGN(const NextPlacement::Progress progress, next_.advance());
  if (progress == NextPlacement::Progress::preparing) return {};
  placer_.adopted_streams(next_share_);
  streams_.begin_share();
  as_forecast_ = progress == NextPlacement::Progress::as_forecast;
  return {};
}

/// True once the duration of steps with the share in use is known: their times are final, or enough of them followed
/// the forecast.
bool Tuner::knows_share() const { return rooms_.scheduler->timed() || (as_forecast_ && streams_.settled()); }

double Tuner::modelled_share() const {
  const Scheduler& scheduler = *rooms_.scheduler;
  const StepPlan* const step = scheduler.plan();
  if (step == nullptr) return 0;
  const AccessTrace& trace = scheduler.trace();
  const UpdateLoad load =
      update_load(trace, trace.seconds(), step->estimate, rooms_.memory->link_costs(), placer_.host_state_bytes());
  return castor::stream_share(load, streams_.step_s());
}

/// Steps beside which a plan is made tell nothing.
void Tuner::try_threads() {
  if (threads_.over() || !rooms_.scheduler->timed() || rooms_.scheduler->plan_pending()) return;
  threads_.note_step(rooms_.timeline.now_ns());
  if (!threads_.over() || threads_.best_threads() == threads_.all_threads()) return;
  rooms_.log(CASTOR_LOG_INFO, threads_kept(threads_));
}

}  // namespace castor
