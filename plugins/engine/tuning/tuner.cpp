// SPDX-License-Identifier: Apache-2.0
#include "tuner.h"

#include <cstdio>
#include <string>

namespace castor {
namespace {

std::string threads_kept(const ThreadTrial& trial) {
  char text[160];
  std::snprintf(text, sizeof text, "%u of %u threads update during backward: %.3f s a step instead of %.3f",
                trial.best_threads(), trial.all_threads(), trial.best_s(), trial.with_all_s());
  return text;
}

}  // namespace

Tuner::Tuner(EngineRooms& rooms, Placer& placer)
    : rooms_(rooms),
      tunes_(rooms.measures() && rooms.options.overlap_updates),
      streams_(rooms, placer, tunes_ && !rooms.options.stream_optim_frac),
      threads_(rooms.team_size.n_threads) {}

bool Tuner::over() const { return streams_.over() && streams_.knows_step() && (!tunes_ || threads_.over()); }

Result<void> Tuner::after_step() {
  if (!tunes_) return {};
  CASTOR_TRY(streams_.after_step());
  if (streams_.over()) try_threads();
  return {};
}

/// Steps beside which a plan is made tell nothing.
void Tuner::try_threads() {
  if (threads_.over() || !rooms_.scheduler->timed() || rooms_.scheduler->plan_pending()) return;
  threads_.note_step(rooms_.timeline.now_ns());
  if (!threads_.over() || threads_.best_threads() == threads_.all_threads()) return;
  rooms_.log(CASTOR_LOG_INFO, threads_kept(threads_));
}

}  // namespace castor
