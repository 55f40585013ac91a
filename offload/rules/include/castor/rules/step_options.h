// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include <castor/memory/index.h>
#include <castor/rules/update_rule.h>

namespace castor {

/// A group of tensors that a step updates with the same values.
enum class GroupId : std::uint32_t {};

/// The options by which a step updates each tensor: one rule for all, with values that may differ by group. `Id` is the
/// index by which a caller knows tensors: its parameters, or the tensors of a layout.
template <IndexType Id>
struct StepOptionsBy {
  UpdateOptions update;   ///< those of every tensor, where there are no groups
  double max_norm = 0;    ///< 0 = no clipping by the norm
  double loss_scale = 1;  ///< the factor by which the loss was multiplied
  IndexedVector<GroupId, UpdateOptions> groups = {};
  IndexedVector<Id, GroupId> group_of = {};  ///< empty without groups

  /// The options of `tensor`. Requires: with groups, the tensor has one (std::out_of_range).
  const UpdateOptions& of(Id tensor) const {
    return groups.empty() ? update : groups.at(group_of.at(tensor));
  }
  bool needs_norm() const { return max_norm != 0 || loss_scale != 1; }
  /// True where some or all tensors are measured before their update.
  bool needs_trust() const {
    const auto has_terms = [](const UpdateOptions& options) { return trust_terms(options, 1).has_value(); };
    return groups.empty() ? has_terms(update) : std::any_of(groups.begin(), groups.end(), has_terms);
  }
  /// True where the direction of the update is measured, not the gradient.
  bool measures_direction() const { return castor::measures_direction(update); }
  bool operator==(const StepOptionsBy&) const = default;
};

}  // namespace castor
