// SPDX-License-Identifier: Apache-2.0
#include "trace_times.h"

#include <cstddef>
#include <utility>

#include <castor/memory/statistics.h>

namespace castor {
namespace {

/// Iterations that are timed: several, because the first ones of a process are slower.
constexpr std::size_t kTimedIterations = 4;

/// By moment, the median of `iterations` (the lower of two middle ones), without the first iteration where there are
/// more.
std::vector<double> typical(const std::vector<MomentSeconds>& iterations, std::vector<double> MomentSeconds::*which) {
  std::vector<double> found;
  for (std::size_t m = 0; m < (iterations.front().*which).size(); ++m) {
    std::vector<double> times;
    for (std::size_t i = iterations.size() > 1 ? 1 : 0; i < iterations.size(); ++i)
      times.push_back((iterations[i].*which)[m]);
    found.push_back(median(std::move(times), Middle::lower));
  }
  return found;
}

}  // namespace

void TraceTimes::begin_moment(WorkTimer* timer) {
  if (times_.size() + (ended_ ? 1 : 0) < kTimedIterations) clock_.add(timer);
}

void TraceTimes::restart() {
  times_.clear();
  ended_.reset();
  unseen_ = false;
}

void TraceTimes::settle(AccessTrace& trace) {
  if (!ended_) return;
  auto seconds = ended_->seconds();
  ended_.reset();
  if (!seconds.ok() || seconds->compute.empty() || seconds->compute.size() != trace.n_moments()) return;
  times_.push_back(std::move(*seconds));
  trace.set_seconds({.compute = typical(times_, &MomentSeconds::compute),
                     .thread = typical(times_, &MomentSeconds::thread)});
  unseen_ = true;
}

bool TraceTimes::final() const { return times_.size() == kTimedIterations; }

}  // namespace castor
