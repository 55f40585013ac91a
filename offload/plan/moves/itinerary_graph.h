// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <castor/plan/move_planner.h>

#include "prices.h"
#include "step_costs.h"

namespace castor {

/// One way of a chunk around the iteration.
struct Itinerary {
  std::vector<Places> places;  ///< by stop
  double link_seconds = 0;
  double priced_seconds = 0;  ///< the same and the price of the room
};

/// Sets of tiers to choose from: bit p for the set p.
using Choices = std::uint8_t;
static_assert(8 * sizeof(Choices) == kNPlaces);

constexpr Choices only_choice(Places places) { return static_cast<Choices>(1U << places); }
/// All sets of the tiers `allowed` that hold at least `needed`, but not the empty one.
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

/// All ways of one chunk around the iteration. Its stops are, in turn, a use, the time after it, and (where the chunk
/// comes ahead of a use) the time just before the next; between stops copies are made and dropped. The last stop
/// leads to the first. Where a use changes the chunk one such is the last stop: the copy that it leaves current is the same
/// for all ways, so that they need not be told apart by where they begin.
class ItineraryGraph {
 public:
  /// All are borrowed; `costs` are those of the problem's links.
  ItineraryGraph(const PlannedChunk& chunk, const MoveProblem& problem, const StepCosts& costs);

  /// The cheapest way under `prices`. Where `room` is given, only copies beyond those that the uses need which fit it;
  /// `places` is empty where no way does.
  Itinerary cheapest(const Prices& prices, const Room* room = nullptr) const;

  /// The way with the fewest copies at the same cost, of those that make no copy that `way` does not.
  Itinerary leanest(const Itinerary& way) const;

  /// All ways whose priced_seconds are at most `limit`, up to `n_most`; false where there are more.
  bool all_below(const Prices& prices, double limit, std::size_t n_most, std::vector<Itinerary>& found) const;

  /// Adds `n_bytes` to `bytes` (Room or BytesAdded) for each copy that the uses need, whatever the way.
  template <typename Bytes>
  void add_needed(std::int64_t n_bytes, Bytes& bytes) const {
    for (const Stop& stop : stops_) add_copies(stop.needed, stop.periods, n_bytes, bytes);
  }
  /// The same for the copies that the way keeps beyond those.
  template <typename Bytes>
  void add(const Itinerary& way, std::int64_t n_bytes, Bytes& bytes) const {
    for (std::size_t i = 0; i < stops_.size(); ++i)
      add_copies(way.places[i] & ~stops_[i].needed, stops_[i].periods, n_bytes, bytes);
  }
  /// True where every copy of the way beyond those that the uses need fits `room`.
  bool fits(const Itinerary& way, const Room& room) const;

  std::uint64_t n_bytes() const { return chunk_.n_bytes; }
  LinkBytes moved(const Itinerary& way) const;
  std::vector<Stay> stays(const Itinerary& way) const;

 private:
  struct Stop {
    Periods periods;
    Choices choices = 0;
    Places needed = kNowhere;                 ///< by the use
    bool changes = false;                     ///< the use changes the chunk
    Passage from_before;                      ///< from the stop before
    const StepCosts::Table* steps = nullptr;  ///< of from_before
  };
  using Rows = std::vector<PlacesRow>;  ///< seconds a byte, by stop and places; kNoWay where it cannot be

  struct Search {
    Rows holding, to_end;
    double limit;  ///< seconds a byte
    std::size_t n_most;
    Choices first;
    Itinerary way;
    std::vector<Itinerary>& found;
  };

  void add_use(std::size_t use, const MoveProblem& problem);
  void add_time_after(std::size_t use, const MoveProblem& problem);
  void link_stops();
  template <typename Bytes>
  static void add_copies(Places places, Periods periods, std::int64_t n_bytes, Bytes& bytes) {
    for (const Tier tier : kLimitedTiers)
      if (holds(places, tier)) bytes.add(tier, periods, n_bytes);
  }

  bool returns_by_itself() const { return stops_.back().changes; }
  /// Calls `each(choices)` with what ways need to be told apart by at the first stop: nothing where they all return to it
  /// from the same copy.
  template <typename Each>
  void for_each_beginning(const Each& each) const {
    if (returns_by_itself()) return each(stops_[0].choices);
    for_each_choice(stops_[0].choices, [&](Places places) { each(only_choice(places)); });
  }
  const StepCosts::Table& steps_to(std::size_t stop) const { return *stops_[stop].steps; }
  Rows holding(const Prices& prices, const Room* room) const;
  Rows holding_within(const Itinerary& way) const;
  Places with_room(const Stop& stop, const Room& room) const;
  Rows costs_to_end(Rows rows, Choices first) const;
  Itinerary cheapest(Rows holding) const;
  Itinerary follow(const Rows& to_end, Choices first) const;
  bool extend(Search& search, double so_far) const;
  double link_seconds(const Itinerary& way) const;

  const PlannedChunk& chunk_;
  const StepCosts& costs_;
  std::size_t n_stops_per_use_;
  std::size_t last_use_ = 0;  ///< one that changes the chunk, if any does
  std::vector<Stop> stops_;
};

}  // namespace castor
