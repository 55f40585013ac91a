// SPDX-License-Identifier: Apache-2.0
#include "itinerary_graph.h"

#include <algorithm>

namespace castor {
namespace {

Places tiers_of(const MoveProblem& problem) { return problem.nvme ? kAnywhere : kAnywhere & ~only(Tier::nvme); }

bool arrives_ahead(const PlannedChunk& chunk) {
  return std::any_of(chunk.uses.begin(), chunk.uses.end(), [](const ChunkUse& use) { return use.n_ahead > 0; });
}

}  // namespace

ItineraryGraph::ItineraryGraph(const PlannedChunk& chunk, const MoveProblem& problem, const StepCosts& costs)
    : chunk_(chunk), costs_(costs), n_stops_per_use_(arrives_ahead(chunk) ? 3 : 2) {
  stops_.reserve(std::max<std::size_t>(1, n_stops_per_use_ * chunk.uses.size()));
  if (chunk.uses.empty()) {
    const Choices rest = sets_with(kNowhere, tiers_of(problem) & chunk.rest);
    stops_.push_back({{0, problem.n_moments}, chunk.rest == kNowhere ? only_choice(kNowhere) : rest});
  }
  const auto changes = [](const ChunkUse& use) { return use.access != Access::read; };
  const auto found = std::find_if(chunk.uses.begin(), chunk.uses.end(), changes);
  last_use_ = found == chunk.uses.end() ? 0 : static_cast<std::size_t>(found - chunk.uses.begin());
  for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
    const std::size_t use = (last_use_ + i) % chunk.uses.size();
    add_use(use, problem);
    add_time_after(use, problem);
  }
  if (!chunk.uses.empty()) std::rotate(stops_.begin(), stops_.begin() + 1, stops_.end());
  link_stops();
}

/// While a use runs, the chunk is on the tier that the use needs. A use that changes the chunk leaves no other copy
/// current, but copies on device and host keep their room until the use ends.
void ItineraryGraph::add_use(std::size_t use, const MoveProblem& problem) {
  const ChunkUse& here = chunk_.uses[use];
  const Places needed = only(here.tier);
  const bool changes = here.access != Access::read;
  const Choices choices = sets_with(needed, changes ? tiers_of(problem) & ~only(Tier::nvme) : tiers_of(problem));
  stops_.push_back({time_of_stay(problem, chunk_, use).at_use, choices, needed, changes});
  stops_.back().from_before.overwritten = here.access == Access::overwrite;
}

/// Between two uses the chunk may be anywhere, and in the end it is on the tier that the next use needs; it is nowhere
/// where the contents are dropped. Contents that the next use overwrites unread are kept all the same, because that use
/// may not happen.
void ItineraryGraph::add_time_after(std::size_t use, const MoveProblem& problem) {
  const ChunkUse& here = chunk_.uses[use];
  const ChunkUse& next = chunk_.uses[(use + 1) % chunk_.uses.size()];
  const TimeOfStay time = time_of_stay(problem, chunk_, use);
  const bool rests = time.until_next_use() > problem.n_together;
  const Places rest = tiers_of(problem) & (rests ? chunk_.rest : kAnywhere);
  stops_.push_back({time.after, here.dropped ? only_choice(kNowhere) : sets_with(kNowhere, rest)});
  if (n_stops_per_use_ == 2) return;
  const Places needed = next.access == Access::overwrite ? kNowhere : only(next.tier);
  stops_.push_back({time.before_next, here.dropped ? only_choice(kNowhere) : sets_with(needed, rest | needed), needed});
}

void ItineraryGraph::link_stops() {
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const Stop& before = i == 0 ? stops_.back() : stops_[i - 1];
    if (before.changes) stops_[i].from_before.left = before.needed;
    if (stops_[i].changes) stops_[i].from_before.changed = stops_[i].needed;
    stops_[i].steps = &costs_.of(stops_[i].from_before);
  }
}

Places ItineraryGraph::with_room(const Stop& stop, const Room& room) const {
  Places found = only(Tier::nvme) | stop.needed;
  for (const Tier tier : kLimitedTiers)
    if (!holds(found, tier) && room.has(tier, stop.periods, static_cast<std::int64_t>(chunk_.n_bytes)))
      found |= only(tier);
  return found;
}

bool ItineraryGraph::fits(const Itinerary& itinerary, const Room& room) const {
  for (std::size_t i = 0; i < stops_.size(); ++i)
    if ((itinerary.places[i] & ~with_room(stops_[i], room)) != 0) return false;
  return true;
}

LinkBytes ItineraryGraph::moved(const Itinerary& itinerary) const {
  LinkBytes total;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const Passage& passage = stops_[i].from_before;
    const Places before = i == 0 ? itinerary.places.back() : itinerary.places[i - 1];
    if (passage.overwritten) continue;
    total += bytes_over(hops(passage.current(before), passage.begun(before, itinerary.places[i])), chunk_.n_bytes);
  }
  return total;
}

std::vector<Stay> ItineraryGraph::stays(const Itinerary& itinerary) const {
  const auto& places = itinerary.places;
  if (chunk_.uses.empty()) return {{places[0], places[0], places[0]}};
  const std::size_t n_uses = chunk_.uses.size();
  std::vector<Stay> stays(n_uses);
  for (std::size_t i = 0; i < n_uses; ++i) {
    const std::size_t after = i * n_stops_per_use_;
    const Places at_use = i == 0 ? places.back() : places[after - 1];
    stays[(last_use_ + i) % n_uses] = {at_use, places[after], places[after + n_stops_per_use_ - 2]};
  }
  return stays;
}

}  // namespace castor
