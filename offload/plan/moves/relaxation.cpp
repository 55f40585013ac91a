// SPDX-License-Identifier: Apache-2.0
#include "relaxation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "itinerary_search.h"

namespace castor {
namespace {

// Rounds without a better bound until the steps are shortened: few where there are few rounds, so that it happens at
// all.
constexpr std::uint64_t kLeastPatience = 5, kMostPatience = 20, kShortenings = 12;
constexpr double kShorten = 0.85;
constexpr double kDeflection = 1.5;   // of a direction that turns back on the one before it
constexpr double kLongestReach = 30;  // longest step, in gaps between the best bound and the target

}  // namespace

MoveModel::MoveModel(const MoveProblem& problem)
    : n_moments(problem.n_moments), step_costs(problem.costs), room(room_of(problem)) {
  BytesAdded needed(n_moments);
  graphs.reserve(problem.chunks.size());
  const Prices nothing(n_moments);
  for (const PlannedChunk& chunk : problem.chunks) {
    graphs.push_back(ItineraryGraph(chunk, problem, step_costs));
    least_seconds.push_back(ItinerarySearch(graphs.back()).cheapest(nothing).link_seconds);
    graphs.back().add_needed(-static_cast<std::int64_t>(chunk.n_bytes), needed);
  }
  free = needed.onto(room);
}

Relaxation::Relaxation(const MoveModel& model, Prices first, std::uint64_t n_rounds)
    : model_(model),
      prices_(std::move(first)),
      best_prices_(prices_),
      itineraries_(model.graphs.size()),
      least_seconds_(model.graphs.size(), 0),
      bound_seconds_(-std::numeric_limits<double>::infinity()),
      patience_(std::clamp(n_rounds / kShortenings, kLeastPatience, kMostPatience)) {
  for (auto& direction : direction_) direction.assign(model.n_moments, 0);
}

void Relaxation::find_itineraries() {
  for (const ChunkId chunk : itineraries_.ids())
    itineraries_[chunk] = ItinerarySearch(model_.graphs[chunk]).cheapest(prices_);
}

/// Keeps the prices where they give the best bound so far.
void Relaxation::judge(double bound_seconds) {
  if (bound_seconds <= bound_seconds_) {
    if (++n_rounds_without_gain_ % patience_ == 0) reach_ *= kShorten;
    return;
  }
  bound_seconds_ = bound_seconds;
  best_prices_ = prices_;
  for (const ChunkId chunk : itineraries_.ids()) least_seconds_[chunk] = itineraries_[chunk].priced_seconds;
  n_rounds_without_gain_ = 0;
}

/// Turns direction_ towards the bytes by which the itineraries overfill the tiers, where prices can follow. Returns the
/// square of its length for the step; a direction that was cut short must not make the step longer.
double Relaxation::turn(const BytesByPeriod& left) {
  const auto over = [&](Tier tier, std::uint32_t m) {
    const auto bytes = -static_cast<double>(left[index(tier)][m]);
    return bytes < 0 && prices_.at(tier, m) == 0 ? 0 : bytes;
  };
  double product = 0, square_before = 0, square_over = 0;
  for_each_period([&](Tier tier, std::uint32_t m) {
    const double before = direction_[index(tier)][m];
    square_over += over(tier, m) * over(tier, m);
    product += before * over(tier, m);
    square_before += before * before;
  });
  const double keep = square_before > 0 ? std::max(0.0, -kDeflection * product / square_before) : 0;
  double square = 0;
  for_each_period([&](Tier tier, std::uint32_t m) {
    double& toward = direction_[index(tier)][m];
    toward = over(tier, m) + keep * toward;
    if (toward < 0 && prices_.at(tier, m) == 0) toward = 0;
    square += toward * toward;
  });
  return std::max(square, square_over / 4);
}

template <typename Each>
void Relaxation::for_each_period(const Each& each) const {
  for (const Tier tier : kLimitedTiers)
    for (std::uint32_t m = 0; m < model_.n_moments; ++m) each(tier, m);
}

bool Relaxation::step(double target_seconds) {
  find_itineraries();
  double bound_seconds = 0;
  BytesAdded taken(model_.n_moments);
  for (const ChunkId chunk : itineraries_.ids()) {
    const ItineraryGraph& graph = model_.graphs[chunk];
    bound_seconds += itineraries_[chunk].priced_seconds;
    graph.add(itineraries_[chunk], -static_cast<std::int64_t>(graph.n_bytes()), taken);
  }
  const BytesByPeriod left = taken.onto(model_.free);
  bool settled = true;
  for_each_period([&](Tier tier, std::uint32_t m) {
    const double price = prices_.at(tier, m);
    bound_seconds -= price * static_cast<double>(model_.room[index(tier)][m]);
    settled = settled && left[index(tier)][m] >= 0 && (price == 0 || left[index(tier)][m] == 0);
  });
  judge(bound_seconds);
  const double square = turn(left);
  if (settled || square == 0) return false;
  const double gap_seconds = std::max(target_seconds - bound_seconds_, 0.0);
  const double length = reach_ * std::min(target_seconds - bound_seconds, kLongestReach * gap_seconds) / square;
  for_each_period([&](Tier tier, std::uint32_t m) {
    prices_.set(tier, m, std::max(0.0, prices_.at(tier, m) + length * direction_[index(tier)][m]));
  });
  prices_.refresh();
  return true;
}

}  // namespace castor
