// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/places.h>

#include <castor/memory/result.h>

namespace castor {

std::string name(Places places) {
  std::string text;
  for (const Tier tier : kTiers)
    if (holds(places, tier)) text += (text.empty() ? "" : "+") + std::string(name(tier));
  return text.empty() ? "nowhere" : text;
}

Hops hops(Places from, Places to) {
  Hops taken;
  if (to == kNowhere) return taken;
  if (from == kNowhere) throw ContractViolation("hops: a copy in " + name(to) + " of contents that are nowhere");
  const auto comes_to = [from, to](Tier tier) { return holds(to, tier) && !holds(from, tier); };
  const bool from_device = holds(from, Tier::device);
  const bool through_host = comes_to(Tier::host) || (comes_to(Tier::device) && !from_device) || comes_to(Tier::nvme);
  if (through_host && !holds(from, Tier::host)) (from_device ? taken.d2h : taken.nvme_read) = true;
  taken.h2d = comes_to(Tier::device);
  taken.nvme_write = comes_to(Tier::nvme);
  return taken;
}

}  // namespace castor
