// SPDX-License-Identifier: Apache-2.0
#include "step_costs.h"

#include <algorithm>

namespace castor {
namespace {

/// The values of Passage's places: nowhere, and the tiers of a use that changes its chunk.
constexpr std::array<Places, 3> kOfUses = {kNowhere, only(Tier::device), only(Tier::host)};

double seconds(Places from, Places to, const LinkCosts& costs) {
  if (from == kNowhere) return to == kNowhere ? 0 : kImpossible;
  return sum(seconds_of(bytes_over(hops(from, to), 1), costs));
}

/// A stop that changes the chunk holds all copies with which it begins, except the copy on NVMe, which takes no room.
double seconds(const Passage& passage, Places from, Places to, const LinkCosts& costs) {
  const Places begun = passage.begun(from, to);
  if ((begun & ~only(Tier::nvme)) != (to & ~only(Tier::nvme)) && passage.changed != kNowhere) return kImpossible;
  return passage.overwritten ? 0 : seconds(passage.current(from), begun, costs);
}

StepCosts::Table table(const Passage& passage, const LinkCosts& costs) {
  StepCosts::Table made;
  for (Places to = 0; to < kNPlaces; ++to)
    for (Places from = 0; from < kNPlaces; ++from) made[to][from] = seconds(passage, from, to, costs);
  return made;
}

}  // namespace

StepCosts::StepCosts(const LinkCosts& costs) {
  for (const bool overwritten : {false, true})
    for (const Places changed : kOfUses)
      for (const Places left : kOfUses) tables_.push_back(table({left, changed, overwritten}, costs));
  for (const PlacesRow& row : of({}))
    for (const double seconds : row)
      if (seconds > 0) least_move_ = std::min(least_move_, seconds);
}

std::size_t StepCosts::index(const Passage& passage) {
  static_assert(kOfUses[1] == 1 && kOfUses[2] == 2);
  return passage.left + kOfUses.size() * (passage.changed + kOfUses.size() * (passage.overwritten ? 1 : 0));
}

}  // namespace castor
