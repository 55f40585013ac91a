// SPDX-License-Identifier: Apache-2.0
#include "itinerary.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace castor {
namespace {

constexpr double kNoWay = std::numeric_limits<double>::infinity();
constexpr double kNextToNothing = 1e-3;

/// All sets of the tiers `allowed` that hold at least `needed`.
std::vector<Places> sets_with(Places needed, Places allowed) {
  std::vector<Places> found;
  for (Places places = 1; places < kNPlaces; ++places)
    if ((places & needed) == needed && (places & ~allowed) == 0) found.push_back(places);
  return found;
}

Places tiers_of(const MoveProblem& problem) { return problem.nvme ? kAnywhere : kAnywhere & ~only(Tier::nvme); }

bool comes_ahead(const PlannedChunk& chunk) {
  return std::any_of(chunk.uses.begin(), chunk.uses.end(), [](const ChunkUse& use) { return use.n_ahead > 0; });
}

}  // namespace

ItineraryGraph::ItineraryGraph(const PlannedChunk& chunk, const MoveProblem& problem)
    : chunk_(chunk), n_stops_per_use_(comes_ahead(chunk) ? 3 : 2) {
  for (Places from = 1; from < kNPlaces; ++from)
    for (Places to = 0; to < kNPlaces; ++to)
      step_seconds_[from][to] = sum(seconds_of(bytes_over(hops(from, to), chunk.n_bytes), problem.costs));
  for (Places to = 1; to < kNPlaces; ++to) step_seconds_[kNowhere][to] = kNoWay;
  if (chunk.uses.empty()) add_rest(problem);
  const auto changes = [](const ChunkUse& use) { return use.access != Access::read; };
  const auto found = std::find_if(chunk.uses.begin(), chunk.uses.end(), changes);
  first_use_ = found == chunk.uses.end() ? 0 : static_cast<std::size_t>(found - chunk.uses.begin());
  for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
    const std::size_t use = (first_use_ + i) % chunk.uses.size();
    add_use(use, problem);
    add_time_after(use, problem);
  }
}

/// A chunk that nobody uses.
void ItineraryGraph::add_rest(const MoveProblem& problem) {
  const std::vector<Places> nowhere = {kNowhere};
  stops_.push_back({{0, problem.n_moments},
                    chunk_.rest == kNowhere ? nowhere : sets_with(kNowhere, tiers_of(problem) & chunk_.rest)});
}

/// While a use runs the chunk is where it is needed. One that changes it leaves no other copy current, but those on
/// device and host go with its end only.
void ItineraryGraph::add_use(std::size_t use, const MoveProblem& problem) {
  const ChunkUse& here = chunk_.uses[use];
  const Places needed = only(here.tier);
  const bool changes = here.access != Access::read;
  stops_.push_back({time_of_stay(problem, chunk_, use).at_use,
                    sets_with(needed, changes ? tiers_of(problem) & ~only(Tier::nvme) : tiers_of(problem)), needed,
                    changes, here.access == Access::overwrite});
}

/// Between two uses: anywhere, and in the end where the next one needs it; nowhere where the contents are dropped. What
/// the next one only overwrites is kept all the same: it may not come.
void ItineraryGraph::add_time_after(std::size_t use, const MoveProblem& problem) {
  const ChunkUse& here = chunk_.uses[use];
  const ChunkUse& next = chunk_.uses[(use + 1) % chunk_.uses.size()];
  const TimeOfStay time = time_of_stay(problem, chunk_, use);
  const bool rests = time.until_next_use() > problem.n_together;
  const Places rest = tiers_of(problem) & (rests ? chunk_.rest : kAnywhere);
  const std::vector<Places> nowhere = {kNowhere};
  stops_.push_back({time.after, here.dropped ? nowhere : sets_with(kNowhere, rest)});
  if (n_stops_per_use_ == 2) return;
  const Places needed = next.access == Access::overwrite ? kNowhere : only(next.tier);
  stops_.push_back({time.before_next, here.dropped ? nowhere : sets_with(needed, rest | needed), needed});
}

/// The tiers of which `room` can take a copy at `stop`, beyond the one that the use needs.
Places ItineraryGraph::with_room(const Stop& stop, const Room& room) const {
  Places found = only(Tier::nvme) | stop.needed;
  for (const Tier tier : kLimitedTiers)
    if (!holds(found, tier) && room.least(tier, stop.periods) >= static_cast<std::int64_t>(chunk_.n_bytes))
      found |= only(tier);
  return found;
}

/// What staying costs, by stop and places; kNoWay where it cannot be.
std::vector<ItineraryGraph::Row> ItineraryGraph::holding(const Prices& prices, const Room* room) const {
  std::vector<Row> rows(stops_.size());
  const auto n_bytes = static_cast<double>(chunk_.n_bytes);
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const Stop& stop = stops_[i];
    rows[i].fill(kNoWay);
    const Places possible = room ? with_room(stop, *room) : kAnywhere;
    const double device = n_bytes * prices.sum(Tier::device, stop.periods);
    const double host = n_bytes * prices.sum(Tier::host, stop.periods);
    for (const Places places : stop.choices)
      if ((places & possible) == places)
        rows[i][places] = (holds(places, Tier::device) ? device : 0) + (holds(places, Tier::host) ? host : 0);
  }
  return rows;
}

/// The current copies when the stop before `stop` ends.
inline Places ItineraryGraph::left_by(std::size_t stop, Places places) const {
  const Stop& before = stop == 0 ? stops_.back() : stops_[stop - 1];
  return before.changes ? before.needed : places;
}

/// The copies there are when `stop` begins: where it changes the chunk, those from before and the one it needs.
inline Places ItineraryGraph::begun(std::size_t stop, Places from, Places to) const {
  return stops_[stop].changes ? from | stops_[stop].needed : to;
}

/// What it costs to come to `stop` with `to` from the one before with `from`.
inline double ItineraryGraph::step_seconds(std::size_t stop, Places from, Places to) const {
  const Places left = left_by(stop, from), begins = begun(stop, left, to);
  if ((begins & ~only(Tier::nvme)) != (to & ~only(Tier::nvme)) && stops_[stop].changes) return kNoWay;
  return stops_[stop].overwritten ? 0 : step_seconds_[left][begins];
}

/// What it costs at least to go on from `here` at the stop before `stop` to the end, given what that costs from there.
inline double ItineraryGraph::least_from(std::size_t stop, Places here, const Row& costs) const {
  const Stop& next = stops_[stop];
  const Row& steps = step_seconds_[left_by(stop, here)];
  double least = kNoWay;
  for (const Places there : next.choices)
    least = std::min(least, (next.changes ? step_seconds(stop, here, there) : steps[there]) + costs[there]);
  return least;
}

/// The least cost from having arrived at each stop to the end of the iteration, which is `first` again.
std::vector<ItineraryGraph::Row> ItineraryGraph::costs_to_end(const std::vector<Row>& holding, Places first) const {
  std::vector<Row> costs(stops_.size());
  for (std::size_t i = stops_.size(); i-- > 0;) {
    costs[i].fill(kNoWay);
    const std::size_t next = (i + 1) % stops_.size();
    for (const Places here : stops_[i].choices) {
      if (holding[i][here] == kNoWay || (i == 0 && here != first)) continue;
      const bool last = i + 1 == stops_.size();
      costs[i][here] =
          holding[i][here] + (last ? step_seconds(next, here, first) : least_from(next, here, costs[next]));
    }
  }
  return costs;
}

/// The way along which the costs to the end fall.
Itinerary ItineraryGraph::follow(const std::vector<Row>& to_end, Places first) const {
  Itinerary way;
  way.places = {first};
  way.priced_seconds = to_end[0][first];
  for (std::size_t i = 1; i < stops_.size(); ++i) {
    const auto cost = [&](Places there) { return step_seconds(i, way.places.back(), there) + to_end[i][there]; };
    const auto& choices = stops_[i].choices;
    way.places.push_back(
        *std::min_element(choices.begin(), choices.end(), [&](Places a, Places b) { return cost(a) < cost(b); }));
  }
  way.link_seconds = link_seconds(way);
  return way;
}

double ItineraryGraph::link_seconds(const Itinerary& way) const {
  double seconds = 0;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t next = (i + 1) % stops_.size();
    seconds += step_seconds(next, way.places[i], way.places[next]);
  }
  return seconds;
}

Itinerary ItineraryGraph::cheapest(const Prices& prices, const Room* room) const {
  const auto rows = holding(prices, room);
  Itinerary best;
  best.priced_seconds = kNoWay;
  for (const Places first : stops_[0].choices) {
    const auto to_end = costs_to_end(rows, first);
    if (to_end[0][first] < best.priced_seconds) best = follow(to_end, first);
  }
  return best;
}

/// What a copy costs that is kept for nothing: next to nothing, beside the least that a move can cost.
std::vector<ItineraryGraph::Row> ItineraryGraph::holding_within(const Itinerary& way) const {
  double least_seconds = kNoWay;
  for (const Row& row : step_seconds_)
    for (const double seconds : row)
      if (seconds > 0) least_seconds = std::min(least_seconds, seconds);
  double n_periods = 0;
  for (const Stop& stop : stops_) n_periods += 1 + stop.periods.count;
  const double copy_seconds = least_seconds == kNoWay ? 1 : kNextToNothing * least_seconds / (3 * n_periods);
  std::vector<Row> rows(stops_.size());
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    rows[i].fill(kNoWay);
    for (const Places places : stops_[i].choices)
      if ((places & ~(way.places[i] | stops_[i].needed)) == 0)
        rows[i][places] = copy_seconds * (1 + stops_[i].periods.count) * std::popcount(places);
  }
  return rows;
}

Itinerary ItineraryGraph::leanest(const Itinerary& way) const {
  const auto rows = holding_within(way);
  Itinerary best = way;
  double least_seconds = kNoWay;
  for (const Places first : stops_[0].choices) {
    const auto to_end = costs_to_end(rows, first);
    if (to_end[0][first] >= least_seconds) continue;
    least_seconds = to_end[0][first];
    best = follow(to_end, first);
  }
  return best.link_seconds <= way.link_seconds ? best : way;
}

bool ItineraryGraph::all_below(const Prices& prices, double limit, std::size_t n_most,
                               std::vector<Itinerary>& found) const {
  Search search{holding(prices, nullptr), {}, limit, n_most, {}, found};
  return std::all_of(stops_[0].choices.begin(), stops_[0].choices.end(), [&](Places first) {
    search.to_end = costs_to_end(search.holding, first);
    search.way.places = {first};
    return search.to_end[0][first] > limit || extend(search, search.holding[0][first]);
  });
}

/// Tries every way on from where the search stands, which has cost `so_far`; false once there are too many.
bool ItineraryGraph::extend(Search& search, double so_far) const {
  auto& places = search.way.places;
  const std::size_t i = places.size();
  if (i == stops_.size()) {
    if (search.found.size() == search.n_most) return false;
    search.way.link_seconds = link_seconds(search.way);
    search.way.priced_seconds = so_far + step_seconds(0, places.back(), places.front());
    search.found.push_back(search.way);
    return true;
  }
  for (const Places there : stops_[i].choices) {
    const double arrived = so_far + step_seconds(i, places.back(), there);
    if (arrived + search.to_end[i][there] > search.limit) continue;
    places.push_back(there);
    const bool all = extend(search, arrived + search.holding[i][there]);
    places.pop_back();
    if (!all) return false;
  }
  return true;
}

void ItineraryGraph::add(const Itinerary& way, std::int64_t n_bytes, Room& room) const {
  for (std::size_t i = 0; i < stops_.size(); ++i)
    for (const Tier tier : kLimitedTiers)
      if (holds(way.places[i], tier) && !holds(stops_[i].needed, tier)) room.add(tier, stops_[i].periods, n_bytes);
}

void ItineraryGraph::add_needed(std::int64_t n_bytes, Room& room) const {
  for (const Stop& stop : stops_)
    for (const Tier tier : kLimitedTiers)
      if (holds(stop.needed, tier)) room.add(tier, stop.periods, n_bytes);
}

bool ItineraryGraph::fits(const Itinerary& way, const Room& room) const {
  for (std::size_t i = 0; i < stops_.size(); ++i)
    if ((way.places[i] & ~with_room(stops_[i], room)) != 0) return false;
  return true;
}

LinkBytes ItineraryGraph::moved(const Itinerary& way) const {
  LinkBytes total;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t next = (i + 1) % stops_.size();
    if (stops_[next].overwritten) continue;
    const Places left = left_by(next, way.places[i]);
    total += bytes_over(hops(left, begun(next, left, way.places[next])), chunk_.n_bytes);
  }
  return total;
}

std::vector<Stay> ItineraryGraph::stays(const Itinerary& way) const {
  const auto& places = way.places;
  if (chunk_.uses.empty()) return {{places[0], places[0], places[0]}};
  const std::size_t n_uses = chunk_.uses.size();
  std::vector<Stay> stays(n_uses);
  for (std::size_t i = 0; i < n_uses; ++i) {
    const std::size_t stop = i * n_stops_per_use_;
    stays[(first_use_ + i) % n_uses] = {places[stop], places[stop + 1], places[stop + n_stops_per_use_ - 1]};
  }
  return stays;
}

}  // namespace castor
