// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "relaxation.h"

namespace castor {

/// Of what ways cost: those that differ by less cost the same, but for rounding.
inline constexpr double kCostRounding = 1e-9;

/// One way per chunk, all of which fit together.
struct Itineraries {
  std::vector<Itinerary> of;  ///< by chunk
  double link_seconds = std::numeric_limits<double>::infinity();
  bool found() const { return link_seconds < std::numeric_limits<double>::infinity(); }
};

/// Finds ways that fit together, guided by prices.
class Packing {
 public:
  /// `model` is borrowed.
  explicit Packing(const MoveModel& model) : model_(model), room_(model.free) {}

  const Itineraries& best() const { return best_; }
  /// Takes `ways` where they cost less than the best ones.
  void offer(const Itineraries& itineraries);

  /// Inserts chunk after chunk, large ones first, then fills the room that is left. Where some find none all begins anew, first
  /// those of the sizes of which some failed most often: chunks of one size are much alike, so it is others that must give way.
  /// Source: squeaky wheel optimization, Joslin and Clements 1999.
  void build(const Prices& prices);
  /// Takes some chunks out of the best ways and puts them back otherwise, `n_tries` times; keeps what costs no more.
  /// Source: the ruin-and-recreate principle, Schrimpf et al. 2000.
  void shake(const Prices& prices, std::uint32_t n_tries);

 private:
  using Chunks = std::vector<std::uint32_t>;

  Chunks insert_all(const Prices& prices, const Chunks& order);
  bool insert(std::uint32_t chunk, const Prices& prices);
  void remove(std::uint32_t chunk);
  void put(std::uint32_t chunk, Itinerary itinerary);
  void fill(const Prices& prices, const Chunks& order);
  bool recreate(const Chunks& chunks, const Prices& prices);
  bool could_move_less(std::uint32_t chunk, const Itinerary& itinerary) const;
  Chunks some_chunks(const Chunks& of);

  const MoveModel& model_;
  Itineraries now_;  ///< being changed
  Room room_;        ///< that now_ leaves
  Itineraries best_;
  std::mt19937_64 random_{1};  ///< the same for the same problem
};

}  // namespace castor
