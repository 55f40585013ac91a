// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "itinerary_graph.h"
#include "prices.h"

namespace castor {

/// Finds itineraries of one chunk by dynamic programming over the stops of its graph.
///
/// Cost: a search visits each stop once, and once more for each set of tiers at the first stop where the graph does not
/// return by itself.
class ItinerarySearch {
 public:
  /// `graph` is borrowed.
  explicit ItinerarySearch(const ItineraryGraph& graph) : graph_(graph) {}

  /// The cheapest itinerary under `prices`. Where `room` is given, its copies beyond those that the uses need fit
  /// `room`; `places` is empty where no itinerary does.
  Itinerary cheapest(const Prices& prices, const Room* room = nullptr) const;

  /// The itinerary with the fewest copies at the same cost, among those that make no copy that `itinerary` does not
  /// make.
  Itinerary leanest(const Itinerary& itinerary) const;

  /// Finds all itineraries whose priced_seconds are at most `limit`, up to `n_most`; false where there are more.
  bool all_below(const Prices& prices, double limit, std::size_t n_most, std::vector<Itinerary>& found) const;

 private:
  using Stop = ItineraryGraph::Stop;
  using Rows = std::vector<PlacesRow>;  ///< seconds a byte, by stop and places; kImpossible where it cannot be

  struct Enumeration {
    Rows holding, to_end;
    double limit;  ///< seconds a byte
    std::size_t n_most;
    Choices first;
    Itinerary itinerary;
    std::vector<Itinerary>& found;
  };

  /// Calls `each(choices)` for each set of tiers at the first stop by which itineraries must be told apart: once, with
  /// all of them, where the graph returns by itself.
  template <typename Each>
  void for_each_beginning(const Each& each) const {
    const Choices first = graph_.stops().front().choices;
    if (graph_.returns_by_itself()) return each(first);
    for_each_choice(first, [&](Places places) { each(only_choice(places)); });
  }
  const StepCosts::Table& steps_to(std::size_t stop) const { return *graph_.stops()[stop].steps; }
  Rows holding(const Prices& prices, const Room* room) const;
  Rows holding_within(const Itinerary& itinerary) const;
  Rows costs_to_end(Rows rows, Choices first) const;
  Itinerary cheapest(Rows holding) const;
  Itinerary follow(const Rows& to_end, Choices first) const;
  bool extend(Enumeration& enumeration, double so_far) const;
  double link_seconds(const Itinerary& itinerary) const;

  const ItineraryGraph& graph_;
};

}  // namespace castor
