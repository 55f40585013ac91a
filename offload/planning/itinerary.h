// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <castor/offload/move_planner.h>

#include "prices.h"

namespace castor {

/// One way of a chunk around the iteration.
struct Itinerary {
  std::vector<Places> places;  ///< by stop
  double link_seconds = 0;
  double priced_seconds = 0;  ///< the same and the price of the room
};

/// All ways of one chunk around the iteration. Its stops are, in turn, a use, the time after it, and (where the chunk
/// comes ahead of a use) the time just before the next; between stops copies are made and dropped. The last stop
/// leads to the first.
class ItineraryGraph {
 public:
  /// `chunk` and `problem` are borrowed.
  ItineraryGraph(const PlannedChunk& chunk, const MoveProblem& problem);

  /// The cheapest way under `prices`. Where `room` is given, only copies beyond those that the uses need which fit it;
  /// `places` is empty where no way does.
  Itinerary cheapest(const Prices& prices, const Room* room = nullptr) const;

  /// The way with the fewest copies at the same cost, of those that make no copy that `way` does not.
  Itinerary leanest(const Itinerary& way) const;

  /// All ways whose priced_seconds are at most `limit`, up to `n_most`; false where there are more.
  bool all_below(const Prices& prices, double limit, std::size_t n_most, std::vector<Itinerary>& found) const;

  /// Adds `n_bytes` to `room` for each copy that the uses need, whatever the way.
  void add_needed(std::int64_t n_bytes, Room& room) const;
  /// The same for the copies that the way keeps beyond those.
  void add(const Itinerary& way, std::int64_t n_bytes, Room& room) const;
  /// True where every copy of the way beyond those that the uses need fits `room`.
  bool fits(const Itinerary& way, const Room& room) const;

  std::uint64_t n_bytes() const { return chunk_.n_bytes; }
  LinkBytes moved(const Itinerary& way) const;
  std::vector<Stay> stays(const Itinerary& way) const;

 private:
  using Row = std::array<double, kNPlaces>;  ///< by Places

  struct Stop {
    Periods periods;
    std::vector<Places> choices;
    Places needed = kNowhere;  ///< by the use
    bool changes = false;      ///< the use changes the chunk
    bool overwritten = false;  ///< … without looking at it
  };

  struct Search {
    std::vector<Row> holding, to_end;
    double limit;
    std::size_t n_most;
    Itinerary way;
    std::vector<Itinerary>& found;
  };

  void add_rest(const MoveProblem& problem);
  void add_use(std::size_t use, const MoveProblem& problem);
  void add_time_after(std::size_t use, const MoveProblem& problem);
  std::vector<Row> holding(const Prices& prices, const Room* room) const;
  Places left_by(std::size_t stop, Places places) const;
  Places begun(std::size_t stop, Places from, Places to) const;
  double step_seconds(std::size_t stop, Places from, Places to) const;
  double least_from(std::size_t stop, Places here, const Row& costs) const;
  std::vector<Row> costs_to_end(const std::vector<Row>& holding, Places first) const;
  bool extend(Search& search, double so_far) const;
  Itinerary follow(const std::vector<Row>& to_end, Places first) const;
  double link_seconds(const Itinerary& way) const;
  std::vector<Row> holding_within(const Itinerary& way) const;
  Places with_room(const Stop& stop, const Room& room) const;

  const PlannedChunk& chunk_;
  std::array<std::array<double, kNPlaces>, kNPlaces> step_seconds_{};  ///< [from][to]
  std::size_t n_stops_per_use_;
  std::size_t first_use_ = 0;  ///< of stops_: one that changes the chunk, because there it can be in one way only
  std::vector<Stop> stops_;
};

}  // namespace castor
