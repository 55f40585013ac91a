// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "itinerary_graph.h"
#include "prices.h"

namespace castor {

/// The chunks of a problem, their ways, and the room there is.
struct MoveModel {
  /// `problem` is borrowed.
  explicit MoveModel(const MoveProblem& problem);
  MoveModel(const MoveModel&) = delete;  // graphs refer to step_costs
  MoveModel& operator=(const MoveModel&) = delete;

  std::uint32_t n_moments;
  StepCosts step_costs;
  std::vector<ItineraryGraph> graphs;  ///< by chunk
  BytesByPeriod room;                  ///< of the tiers
  BytesByPeriod free;                  ///< beside what the uses need
  std::vector<double> least_seconds;   ///< of the links, by chunk: where there is room for everything
};

/// Lets every chunk go its cheapest way for itself and pay for room: what all pay, less the value of the room there is,
/// is a lower bound for every set of prices. Prices follow the subgradient with Polyak's step length; a direction that turns
/// back on the one before it keeps part of that.
/// Source: Held, Wolfe and Crowder, "Validation of subgradient optimization", 1974; Camerini, Fratta and Maffioli, "On
/// improving relaxation methods by modified gradient techniques", 1975.
class Relaxation {
 public:
  /// Begins with the prices `first`; about `n_rounds` are going to follow. `model` is borrowed.
  Relaxation(const MoveModel& model, Prices first, std::uint64_t n_rounds);

  /// One round; `target_seconds` is the cost of the best plan known. False where the ways fit as they are.
  bool step(double target_seconds);

  double bound_seconds() const { return bound_seconds_; }
  /// The prices that make the best bound, and what each chunk pays at least under them.
  const Prices& prices() const { return best_prices_; }
  double least_seconds(std::size_t chunk) const { return least_seconds_[chunk]; }

 private:
  void find_itineraries();
  void judge(double bound_seconds);
  double turn(const BytesByPeriod& left);
  template <typename Each>
  void for_each_period(const Each& each) const;

  const MoveModel& model_;
  Prices prices_, best_prices_;
  std::vector<Itinerary> itineraries_;  ///< under prices_
  std::vector<double> least_seconds_;
  std::array<std::vector<double>, 2> direction_;  ///< of the prices, in bytes above the room
  double bound_seconds_;
  double reach_ = 1;  ///< share of Polyak's step length
  std::uint64_t patience_, n_rounds_without_gain_ = 0;
};

}  // namespace castor
