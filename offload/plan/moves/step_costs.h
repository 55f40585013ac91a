// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <limits>
#include <vector>

#include <castor/plan/links.h>

namespace castor {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// Seconds by Places.
using PlacesRow = std::array<double, kNPlaces>;

/// The passage of a chunk from one stop of its itinerary to the next.
struct Passage {
  Places left = kNowhere;     ///< the only copy that the stop before leaves current, where it changes the chunk
  Places changed = kNowhere;  ///< the copy that the next stop needs, where it changes the chunk
  bool overwritten = false;   ///< the next stop changes the chunk without reading it

  /// The current copies when the stop before, of `from`, ends.
  Places current(Places from) const { return left != kNowhere ? left : from; }
  /// The copies when the next stop, of `to`, begins: where it changes the chunk, the copies from before and the one
  /// that it needs.
  Places begun(Places from, Places to) const { return changed != kNowhere ? current(from) | changed : to; }
};

/// The costs of passages on the links, the same for all chunks.
class StepCosts {
 public:
  /// Seconds a byte, [to][from]; kImpossible where it cannot be.
  using Table = std::array<PlacesRow, kNPlaces>;

  explicit StepCosts(const LinkCosts& costs);

  const Table& of(const Passage& passage) const { return tables_[index(passage)]; }
  /// The cost of a byte's cheapest move; kImpossible where all moves are free.
  double least_move() const { return least_move_; }

 private:
  static std::size_t index(const Passage& passage);

  std::vector<Table> tables_;
  double least_move_ = kImpossible;
};

}  // namespace castor
