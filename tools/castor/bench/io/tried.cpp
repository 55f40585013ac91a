// SPDX-License-Identifier: Apache-2.0
#include "tried.h"

#include <algorithm>

#include <castor/memory/result.h>

namespace castor::bench {
namespace {

constexpr double kGoodEnough = 0.97;

}  // namespace

double Tried::both_bytes_per_s() const {
  if (read_bytes_per_s <= 0 || write_bytes_per_s <= 0) return 0;
  return 2 / (1 / read_bytes_per_s + 1 / write_bytes_per_s);
}

const Tried& smallest_good(const std::vector<Tried>& tried) {
  if (tried.empty()) throw ContractViolation("the best of no setting");
  const auto slower = [](const Tried& a, const Tried& b) { return a.both_bytes_per_s() < b.both_bytes_per_s(); };
  const double fastest = std::max_element(tried.begin(), tried.end(), slower)->both_bytes_per_s();
  const Tried* best = nullptr;
  for (const Tried& one : tried)
    if (one.both_bytes_per_s() >= kGoodEnough * fastest && (!best || one.setting < best->setting)) best = &one;
  return *best;
}

}  // namespace castor::bench
