// SPDX-License-Identifier: Apache-2.0
#include "bench/ceiling.h"

#include <array>

namespace castor::bench {

std::string Ceiling::name() const { return program() + (pace_ == Pace::one_by_one ? " one by one" : " in batches"); }

/// There and back, so that what a drive loses or gains from run to run falls on both.
Result<void> Ceiling::settle(const IoCase& one, const Region& region, double seconds) {
  constexpr std::array<Pace, 4> kTrials = {Pace::one_by_one, Pace::in_batches, Pace::in_batches, Pace::one_by_one};
  double in_favour_of_batches = 0;  // GB/s
  for (const Pace pace : kTrials) {
    CASTOR_ASSIGN(const Sample sample, measure_at(pace, one, region, seconds / kTrials.size()));
    in_favour_of_batches += pace == Pace::in_batches ? sample.gb_per_s() : -sample.gb_per_s();
  }
  pace_ = in_favour_of_batches > 0 ? Pace::in_batches : Pace::one_by_one;
  return {};
}

}  // namespace castor::bench
