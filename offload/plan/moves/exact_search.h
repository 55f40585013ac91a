// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "packing.h"

namespace castor {

/// Tries all sets of itineraries that could be better than the best known set: an itinerary that costs more above its
/// chunk's least than the gap to the bound cannot be part of a better one.
class ExactSearch {
 public:
  /// All are borrowed.
  ExactSearch(const MoveModel& model, const Relaxation& relaxation, Packing& packing)
      : model_(model), relaxation_(relaxation), packing_(packing), room_(model.free) {}

  /// Offers the sets that it finds to `packing`. True where all were tried: then no set is better than packing.best().
  bool run();

 private:
  bool list_itineraries();
  void choose(std::size_t depth, double spent_seconds);

  const MoveModel& model_;
  const Relaxation& relaxation_;
  Packing& packing_;
  IndexedVector<ChunkId, std::vector<Itinerary>> itineraries_;  ///< cheapest first
  std::vector<ChunkId> order_;                                  ///< those with the fewest ways first
  Room room_;
  Itineraries chosen_;
  std::uint64_t n_tries_left_ = 0;
};

}  // namespace castor
