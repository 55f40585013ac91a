// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "itinerary.h"

namespace castor {
namespace {

constexpr double kNextToNothing = 1e-3;

constexpr Choices subsets_of(Places allowed) { return only_choice(kNowhere) | sets_with(kNowhere, allowed); }

constexpr std::array<Choices, kNPlaces> kSubsets = {subsets_of(0), subsets_of(1), subsets_of(2), subsets_of(3),
                                                    subsets_of(4), subsets_of(5), subsets_of(6), subsets_of(7)};

void keep_only(Choices choices, PlacesRow& row) {
  for (Places places = 0; places < kNPlaces; ++places)
    row[places] = (choices & only_choice(places)) != 0 ? row[places] : kNoWay;
}

}  // namespace

/// What staying costs.
ItineraryGraph::Rows ItineraryGraph::holding(const Prices& prices, const Room* room) const {
  Rows rows(stops_.size());
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const Stop& stop = stops_[i];
    const auto [device, host] = prices.sum(stop.periods);
    rows[i] = {0, device, host, device + host, 0, device, host, device + host};
    keep_only(room ? stop.choices & kSubsets[with_room(stop, *room)] : stop.choices, rows[i]);
  }
  return rows;
}

/// What a copy costs that is kept for nothing: next to nothing, beside the least that a move can cost.
ItineraryGraph::Rows ItineraryGraph::holding_within(const Itinerary& way) const {
  double n_periods = 0;
  for (const Stop& stop : stops_) n_periods += 1 + stop.periods.count;
  const double least_seconds = costs_.least_move() == kNoWay ? 1 : costs_.least_move();
  const double copy_seconds = kNextToNothing * least_seconds / (3 * n_periods);
  Rows rows(stops_.size());
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const Stop& stop = stops_[i];
    for (Places places = 0; places < kNPlaces; ++places)
      rows[i][places] = copy_seconds * (1 + stop.periods.count) * std::popcount(places);
    keep_only(stop.choices & kSubsets[way.places[i] | stop.needed], rows[i]);
  }
  return rows;
}

/// The least cost from having arrived at each stop to the end of the iteration, which is one of `first` again. `rows` is what
/// staying costs.
ItineraryGraph::Rows ItineraryGraph::costs_to_end(Rows rows, Choices first) const {
  keep_only(first, rows[0]);
  if (!returns_by_itself()) {
    const PlacesRow& back = steps_to(0)[static_cast<std::size_t>(std::countr_zero(first))];
    for (Places here = 0; here < kNPlaces; ++here) rows.back()[here] += back[here];
  }
  for (std::size_t i = stops_.size() - 1; i-- > 0;) {
    const StepCosts::Table& steps = steps_to(i + 1);
    PlacesRow least;
    least.fill(kNoWay);
    for_each_choice(stops_[i + 1].choices, [&](Places there) {
      for (Places here = 0; here < kNPlaces; ++here)
        least[here] = std::min(least[here], steps[there][here] + rows[i + 1][there]);
    });
    for (Places here = 0; here < kNPlaces; ++here) rows[i][here] += least[here];
  }
  return rows;
}

/// The way along which the costs to the end fall; none where there is none.
Itinerary ItineraryGraph::follow(const Rows& to_end, Choices first) const {
  Itinerary way;
  way.places.resize(stops_.size());
  auto here = static_cast<Places>(std::countr_zero(first));
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const StepCosts::Table& steps = steps_to(i);
    const Places before = here;
    double least = kNoWay;
    for_each_choice(i == 0 ? first : stops_[i].choices, [&](Places there) {
      const double seconds = steps[there][before] + to_end[i][there];
      if (seconds < least) least = seconds, here = there;
    });
    if (i == 0 && least == kNoWay) return {{}, kNoWay, kNoWay};
    if (i == 0) way.priced_seconds = least * static_cast<double>(chunk_.n_bytes);
    way.places[i] = here;
  }
  way.link_seconds = link_seconds(way);
  return way;
}

double ItineraryGraph::link_seconds(const Itinerary& way) const {
  double seconds = 0;
  for (std::size_t i = 0; i < stops_.size(); ++i)
    seconds += steps_to(i)[way.places[i]][i == 0 ? way.places.back() : way.places[i - 1]];
  return seconds * static_cast<double>(chunk_.n_bytes);
}

Itinerary ItineraryGraph::cheapest(Rows holding) const {
  if (returns_by_itself()) return follow(costs_to_end(std::move(holding), stops_[0].choices), stops_[0].choices);
  Itinerary best{{}, kNoWay, kNoWay};
  for_each_beginning([&](Choices first) {
    Itinerary way = follow(costs_to_end(holding, first), first);
    if (way.priced_seconds < best.priced_seconds) best = std::move(way);
  });
  return best;
}

Itinerary ItineraryGraph::cheapest(const Prices& prices, const Room* room) const {
  return cheapest(holding(prices, room));
}

Itinerary ItineraryGraph::leanest(const Itinerary& way) const {
  Itinerary best = cheapest(holding_within(way));
  return best.link_seconds <= way.link_seconds ? best : way;
}

bool ItineraryGraph::all_below(const Prices& prices, double limit, std::size_t n_most,
                               std::vector<Itinerary>& found) const {
  const double a_byte = limit / static_cast<double>(chunk_.n_bytes);
  Search search{holding(prices, nullptr), {}, a_byte, n_most, 0, {}, found};
  bool all = true;
  for_each_beginning([&](Choices first) {
    search.to_end = costs_to_end(search.holding, first);
    search.first = first;
    all = all && extend(search, 0);
  });
  return all;
}

/// Tries every way on from where the search stands, which has cost `so_far` seconds a byte; false once there are too many.
bool ItineraryGraph::extend(Search& search, double so_far) const {
  auto& places = search.way.places;
  const std::size_t i = places.size();
  if (i == stops_.size()) {
    if (search.found.size() == search.n_most) return false;
    const double back = returns_by_itself() ? 0 : steps_to(0)[places.front()][places.back()];
    search.way.link_seconds = link_seconds(search.way);
    search.way.priced_seconds = (so_far + back) * static_cast<double>(chunk_.n_bytes);
    search.found.push_back(search.way);
    return true;
  }
  const Places before = i == 0 ? static_cast<Places>(std::countr_zero(search.first)) : places.back();
  bool all = true;
  for_each_choice(i == 0 ? search.first : stops_[i].choices, [&](Places there) {
    const double arrived = so_far + steps_to(i)[there][before];
    if (!all || arrived + search.to_end[i][there] > search.limit) return;
    places.push_back(there);
    all = extend(search, arrived + search.holding[i][there]);
    places.pop_back();
  });
  return all;
}

}  // namespace castor
