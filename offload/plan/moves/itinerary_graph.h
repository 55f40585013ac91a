// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <castor/plan/move_planner.h>

#include "room.h"
#include "step_costs.h"

namespace castor {

/// The places of a chunk at each stop of the iteration.
struct Itinerary {
  std::vector<Places> places;  ///< by stop
  double link_seconds = 0;
  double priced_seconds = 0;  ///< link_seconds and the price of the room
};

/// Sets of tiers to choose from: bit p stands for the set p.
using Choices = std::uint8_t;
static_assert(8 * sizeof(Choices) == kNPlaces);

constexpr Choices only_choice(Places places) { return static_cast<Choices>(1U << places); }
/// All sets of the tiers `allowed` that hold at least `needed`, except the empty set.
constexpr Choices sets_with(Places needed, Places allowed) {
  Choices found = 0;
  for (Places places = 1; places < kNPlaces; ++places)
    if ((places & needed) == needed && (places & ~allowed) == 0) found |= only_choice(places);
  return found;
}

template <typename Each>
void for_each_choice(Choices choices, const Each& each) {
  for (; choices != 0; choices &= static_cast<Choices>(choices - 1))
    each(static_cast<Places>(std::countr_zero(choices)));
}

/// All itineraries of one chunk around the iteration. The stops are, in turn, a use, the time after it, and (where the
/// chunk arrives ahead of a use) the time just before the next use; copies are made and dropped between stops. The last
/// stop leads to the first. Where a use changes the chunk, the last stop is such a use: it leaves the same copy current
/// on every itinerary, so that a search need not tell them apart by their first stop.
class ItineraryGraph {
 public:
  struct Stop {
    Periods periods;
    Choices choices = 0;
    Places needed = kNowhere;                 ///< by the use
    bool changes = false;                     ///< the use changes the chunk
    Passage from_before;                      ///< from the stop before
    const StepCosts::Table* steps = nullptr;  ///< costs of from_before
  };

  /// All are borrowed; `costs` are those of the problem's links.
  ItineraryGraph(const PlannedChunk& chunk, const MoveProblem& problem, const StepCosts& costs);

  std::uint64_t n_bytes() const { return chunk_.n_bytes; }
  const std::vector<Stop>& stops() const { return stops_; }
  const StepCosts& costs() const { return costs_; }
  /// True where the last stop leaves the same copy current on every itinerary.
  bool returns_by_itself() const { return stops_.back().changes; }
  /// The tiers that can hold a copy at `stop`: NVMe, the tier that the use needs, and those that `room` has room on.
  Places with_room(const Stop& stop, const Room& room) const;

  /// Adds `n_bytes` to `bytes` (Room or BytesAdded) for each copy that the uses need, on every itinerary.
  template <typename Bytes>
  void add_needed(std::int64_t n_bytes, Bytes& bytes) const {
    for (const Stop& stop : stops_) add_copies(stop.needed, stop.periods, n_bytes, bytes);
  }
  /// The same for the copies that the itinerary keeps beyond those.
  template <typename Bytes>
  void add(const Itinerary& itinerary, std::int64_t n_bytes, Bytes& bytes) const {
    for (std::size_t i = 0; i < stops_.size(); ++i)
      add_copies(itinerary.places[i] & ~stops_[i].needed, stops_[i].periods, n_bytes, bytes);
  }
  /// True where every copy of the itinerary beyond those that the uses need fits `room`.
  bool fits(const Itinerary& itinerary, const Room& room) const;

  LinkBytes moved(const Itinerary& itinerary) const;
  std::vector<Stay> stays(const Itinerary& itinerary) const;

 private:
  void add_use(std::size_t use, const MoveProblem& problem);
  void add_time_after(std::size_t use, const MoveProblem& problem);
  void link_stops();
  template <typename Bytes>
  static void add_copies(Places places, Periods periods, std::int64_t n_bytes, Bytes& bytes) {
    for (const Tier tier : kLimitedTiers)
      if (holds(places, tier)) bytes.add(tier, periods, n_bytes);
  }

  const PlannedChunk& chunk_;
  const StepCosts& costs_;
  std::size_t n_stops_per_use_;
  std::size_t last_use_ = 0;  ///< one that changes the chunk, if there is one
  std::vector<Stop> stops_;
};

}  // namespace castor
