// SPDX-License-Identifier: Apache-2.0
#include "ceiling.h"

#include <array>

namespace castor::bench {
namespace {

/// A drive reads space that is only reserved at no cost, so a ceiling runs on written bytes or not at all.
Result<void> check(const IoCase& one, const Region& region) {
  if (region.file_bytes >= one.request_bytes()) return {};
  return Error{ErrorKind::failed, "the file system does not say where the store's file was written"};
}

}  // namespace

std::string Ceiling::name() const { return program() + (pace_ == Pace::one_by_one ? " one by one" : " in batches"); }

Result<Sample> Ceiling::measure(const IoCase& one, const Region& region, double seconds) {
  CASTOR_TRY(check(one, region));
  return measure_at(pace_, one, region, seconds);
}

/// Tries the paces forwards and backwards, so that a drift of the drive's speed affects both alike.
Result<void> Ceiling::settle(const IoCase& one, const Region& region, double seconds) {
  constexpr std::array<Pace, 4> kTrials = {Pace::one_by_one, Pace::in_batches, Pace::in_batches, Pace::one_by_one};
  CASTOR_TRY(check(one, region));
  double in_favour_of_batches = 0;  // GB/s
  for (const Pace pace : kTrials) {
    CASTOR_ASSIGN(const Sample sample, measure_at(pace, one, region, seconds / kTrials.size()));
    in_favour_of_batches += pace == Pace::in_batches ? sample.gb_per_s() : -sample.gb_per_s();
  }
  pace_ = in_favour_of_batches > 0 ? Pace::in_batches : Pace::one_by_one;
  return {};
}

}  // namespace castor::bench
