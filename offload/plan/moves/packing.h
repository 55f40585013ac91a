// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "relaxation.h"

namespace castor {

/// Costs that differ by less than this share are equal except for rounding.
inline constexpr double kCostRounding = 1e-9;

/// One itinerary per chunk; all fit together.
struct Itineraries {
  IndexedVector<ChunkId, Itinerary> of;
  double link_seconds = std::numeric_limits<double>::infinity();
  bool found() const { return link_seconds < std::numeric_limits<double>::infinity(); }
};

/// Finds itineraries that fit together, guided by prices.
class Packing {
 public:
  /// `model` is borrowed.
  explicit Packing(const MoveModel& model) : model_(model), room_(model.free) {}

  const Itineraries& best() const { return best_; }
  /// Keeps `itineraries` as the best where they cost less than the best so far.
  void offer(const Itineraries& itineraries);

  /// Inserts chunk after chunk, large ones first, then fills the room that is left. Where a chunk finds no room,
  /// everything is inserted anew, first the chunks of the sizes that failed most often: chunks of one size are much
  /// alike, so chunks of other sizes must yield.
  /// Source: squeaky wheel optimization, Joslin and Clements 1999.
  void build(const Prices& prices);
  /// Takes some chunks out of the best set and puts them back in another order, `n_tries` times; keeps results that
  /// cost no more.
  /// Source: the ruin-and-recreate principle, Schrimpf et al. 2000.
  void shake(const Prices& prices, std::uint32_t n_tries);

 private:
  using Chunks = std::vector<ChunkId>;

  Chunks insert_all(const Prices& prices, const Chunks& order);
  bool insert(ChunkId chunk, const Prices& prices);
  void remove(ChunkId chunk);
  void put(ChunkId chunk, Itinerary itinerary);
  void fill(const Prices& prices, const Chunks& order);
  bool recreate(const Chunks& chunks, const Prices& prices);
  bool could_move_less(ChunkId chunk, const Itinerary& itinerary) const;
  Chunks some_chunks(const Chunks& of);

  const MoveModel& model_;
  Itineraries now_;  ///< being changed
  Room room_;        ///< left by now_
  Itineraries best_;
  std::mt19937_64 random_{1};  ///< a fixed seed: the same problem has the same plan
};

}  // namespace castor
