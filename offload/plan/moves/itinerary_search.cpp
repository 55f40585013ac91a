// SPDX-License-Identifier: Apache-2.0
#include "itinerary_search.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace castor {
namespace {

constexpr double kNextToNothing = 1e-3;

constexpr Choices subsets_of(Places allowed) { return only_choice(kNowhere) | sets_with(kNowhere, allowed); }

constexpr std::array<Choices, kNPlaces> kSubsets = {subsets_of(0), subsets_of(1), subsets_of(2), subsets_of(3),
                                                    subsets_of(4), subsets_of(5), subsets_of(6), subsets_of(7)};

void keep_only(Choices choices, PlacesRow& row) {
  for (Places places = 0; places < kNPlaces; ++places)
    row[places] = (choices & only_choice(places)) != 0 ? row[places] : kImpossible;
}

}  // namespace

/// Seconds a byte that a stay at each stop costs.
ItinerarySearch::Rows ItinerarySearch::holding(const Prices& prices, const Room* room) const {
  const auto& stops = graph_.stops();
  Rows rows(stops.size());
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const Stop& stop = stops[i];
    const auto [device, host] = prices.sum(stop.periods);
    rows[i] = {0, device, host, device + host, 0, device, host, device + host};
    keep_only(room ? stop.choices & kSubsets[graph_.with_room(stop, *room)] : stop.choices, rows[i]);
  }
  return rows;
}

/// A needless copy costs next to nothing beside the cheapest move.
ItinerarySearch::Rows ItinerarySearch::holding_within(const Itinerary& itinerary) const {
  const auto& stops = graph_.stops();
  double n_periods = 0;
  for (const Stop& stop : stops) n_periods += 1 + stop.periods.count;
  const double least_seconds = graph_.costs().least_move() == kImpossible ? 1 : graph_.costs().least_move();
  const double copy_seconds = kNextToNothing * least_seconds / (3 * n_periods);
  Rows rows(stops.size());
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const Stop& stop = stops[i];
    for (Places places = 0; places < kNPlaces; ++places)
      rows[i][places] = copy_seconds * (1 + stop.periods.count) * std::popcount(places);
    keep_only(stop.choices & kSubsets[itinerary.places[i] | stop.needed], rows[i]);
  }
  return rows;
}

/// The least cost from the arrival at each stop to the end of the iteration, which is one of `first` again. `rows` are
/// the costs of staying.
ItinerarySearch::Rows ItinerarySearch::costs_to_end(Rows rows, Choices first) const {
  keep_only(first, rows[0]);
  if (!graph_.returns_by_itself()) {
    const PlacesRow& back = steps_to(0)[static_cast<std::size_t>(std::countr_zero(first))];
    for (Places here = 0; here < kNPlaces; ++here) rows.back()[here] += back[here];
  }
  for (std::size_t i = graph_.stops().size() - 1; i-- > 0;) {
    const StepCosts::Table& steps = steps_to(i + 1);
    PlacesRow least;
    least.fill(kImpossible);
    for_each_choice(graph_.stops()[i + 1].choices, [&](Places there) {
      for (Places here = 0; here < kNPlaces; ++here)
        least[here] = std::min(least[here], steps[there][here] + rows[i + 1][there]);
    });
    for (Places here = 0; here < kNPlaces; ++here) rows[i][here] += least[here];
  }
  return rows;
}

/// The itinerary along which the costs to the end fall; `places` is empty where there is none.
Itinerary ItinerarySearch::follow(const Rows& to_end, Choices first) const {
  Itinerary itinerary;
  itinerary.places.resize(graph_.stops().size());
  auto here = static_cast<Places>(std::countr_zero(first));
  for (std::size_t i = 0; i < graph_.stops().size(); ++i) {
    const StepCosts::Table& steps = steps_to(i);
    const Places before = here;
    double least = kImpossible;
    for_each_choice(i == 0 ? first : graph_.stops()[i].choices, [&](Places there) {
      const double seconds = steps[there][before] + to_end[i][there];
      if (seconds < least) least = seconds, here = there;
    });
    if (i == 0 && least == kImpossible) return {{}, kImpossible, kImpossible};
    if (i == 0) itinerary.priced_seconds = least * static_cast<double>(graph_.n_bytes());
    itinerary.places[i] = here;
  }
  itinerary.link_seconds = link_seconds(itinerary);
  return itinerary;
}

double ItinerarySearch::link_seconds(const Itinerary& itinerary) const {
  double seconds = 0;
  for (std::size_t i = 0; i < graph_.stops().size(); ++i)
    seconds += steps_to(i)[itinerary.places[i]][i == 0 ? itinerary.places.back() : itinerary.places[i - 1]];
  return seconds * static_cast<double>(graph_.n_bytes());
}

Itinerary ItinerarySearch::cheapest(Rows holding) const {
  const Choices any = graph_.stops().front().choices;
  if (graph_.returns_by_itself()) return follow(costs_to_end(std::move(holding), any), any);
  Itinerary best{{}, kImpossible, kImpossible};
  for_each_beginning([&](Choices first) {
    Itinerary itinerary = follow(costs_to_end(holding, first), first);
    if (itinerary.priced_seconds < best.priced_seconds) best = std::move(itinerary);
  });
  return best;
}

Itinerary ItinerarySearch::cheapest(const Prices& prices, const Room* room) const {
  return cheapest(holding(prices, room));
}

Itinerary ItinerarySearch::leanest(const Itinerary& itinerary) const {
  Itinerary best = cheapest(holding_within(itinerary));
  return best.link_seconds <= itinerary.link_seconds ? best : itinerary;
}

bool ItinerarySearch::all_below(const Prices& prices, double limit, std::size_t n_most,
                                std::vector<Itinerary>& found) const {
  const double a_byte = limit / static_cast<double>(graph_.n_bytes());
  Enumeration enumeration{holding(prices, nullptr), {}, a_byte, n_most, 0, {}, found};
  bool all = true;
  for_each_beginning([&](Choices first) {
    enumeration.to_end = costs_to_end(enumeration.holding, first);
    enumeration.first = first;
    all = all && extend(enumeration, 0);
  });
  return all;
}

/// Tries every continuation of the enumeration's itinerary, which has cost `so_far` seconds a byte; false once more
/// than n_most are found.
bool ItinerarySearch::extend(Enumeration& enumeration, double so_far) const {
  auto& places = enumeration.itinerary.places;
  const std::size_t i = places.size();
  if (i == graph_.stops().size()) {
    if (enumeration.found.size() == enumeration.n_most) return false;
    const double back = graph_.returns_by_itself() ? 0 : steps_to(0)[places.front()][places.back()];
    enumeration.itinerary.link_seconds = link_seconds(enumeration.itinerary);
    enumeration.itinerary.priced_seconds = (so_far + back) * static_cast<double>(graph_.n_bytes());
    enumeration.found.push_back(enumeration.itinerary);
    return true;
  }
  const Places before = i == 0 ? static_cast<Places>(std::countr_zero(enumeration.first)) : places.back();
  bool all = true;
  for_each_choice(i == 0 ? enumeration.first : graph_.stops()[i].choices, [&](Places there) {
    const double arrived = so_far + steps_to(i)[there][before];
    if (!all || arrived + enumeration.to_end[i][there] > enumeration.limit) return;
    places.push_back(there);
    all = extend(enumeration, arrived + enumeration.holding[i][there]);
    places.pop_back();
  });
  return all;
}

}  // namespace castor
