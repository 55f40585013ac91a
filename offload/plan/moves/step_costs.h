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

/// How a chunk comes from one stop of its way to the next.
struct Passage {
  Places left = kNowhere;     ///< where the stop before changes the chunk: the only copy that it leaves current
  Places changed = kNowhere;  ///< where the next stop changes it: the copy that it needs
  bool overwritten = false;   ///< … without looking at it

  /// The current copies when the stop before, of `from`, ends.
  Places current(Places from) const { return left != kNowhere ? left : from; }
  /// The copies there are when the next stop, of `to`, begins: where it changes the chunk, those from before and the one
  /// that it needs.
  Places begun(Places from, Places to) const { return changed != kNowhere ? current(from) | changed : to; }
};

/// What passages cost the links, whatever the chunk.
class StepCosts {
 public:
  /// Seconds a byte, [to][from]; kImpossible where it cannot be.
  using Table = std::array<PlacesRow, kNPlaces>;

  explicit StepCosts(const LinkCosts& costs);

  const Table& of(const Passage& passage) const { return tables_[index(passage)]; }
  /// The least that moving a byte costs; kImpossible where all is free.
  double least_move() const { return least_move_; }

 private:
  static std::size_t index(const Passage& passage);

  std::vector<Table> tables_;
  double least_move_ = kImpossible;
};

}  // namespace castor
