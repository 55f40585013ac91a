// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "itinerary_graph.h"
#include "prices.h"

namespace castor {

/// The chunks of a problem, their itineraries, and the room.
struct MoveModel {
  /// `problem` is borrowed.
  explicit MoveModel(const MoveProblem& problem);
  MoveModel(const MoveModel&) = delete;  // graphs refer to step_costs
  MoveModel& operator=(const MoveModel&) = delete;

  std::uint32_t n_moments;
  StepCosts step_costs;
  IndexedVector<ChunkId, ItineraryGraph> graphs;
  BytesByPeriod room;  ///< of the tiers
  BytesByPeriod free;  ///< the room beside the copies that the uses need
  IndexedVector<ChunkId, double> least_seconds;  ///< of the links, if there were room for everything
};

/// Every chunk takes its own cheapest itinerary and pays for room: the sum of all payments, less the value of the room,
/// is a lower bound under every set of prices. Prices follow the subgradient with Polyak's step length; a direction
/// that turns back on the one before it keeps part of that.
/// Source: Held, Wolfe and Crowder, "Validation of subgradient optimization", 1974; Camerini, Fratta and Maffioli, "On
/// improving relaxation methods by modified gradient techniques", 1975.
class Relaxation {
 public:
  /// Begins with the prices `first`; about `n_rounds` calls of step will follow. `model` is borrowed.
  Relaxation(const MoveModel& model, Prices first, std::uint64_t n_rounds);

  /// One round; `target_seconds` is the cost of the best plan known. False where the itineraries fit as they are.
  bool step(double target_seconds);

  double bound_seconds() const { return bound_seconds_; }
  /// The prices that give the best bound.
  const Prices& prices() const { return best_prices_; }
  /// The least that `chunk` pays under prices().
  double least_seconds(ChunkId chunk) const { return least_seconds_[chunk]; }

 private:
  void find_itineraries();
  void judge(double bound_seconds);
  double turn(const BytesByPeriod& left);
  template <typename Each>
  void for_each_period(const Each& each) const;

  const MoveModel& model_;
  Prices prices_, best_prices_;
  IndexedVector<ChunkId, Itinerary> itineraries_;  ///< under prices_
  IndexedVector<ChunkId, double> least_seconds_;
  std::array<std::vector<double>, 2> direction_;  ///< of the prices, in bytes above the room
  double bound_seconds_;
  double reach_ = 1;  ///< share of Polyak's step length
  std::uint64_t patience_, n_rounds_without_gain_ = 0;
};

}  // namespace castor
