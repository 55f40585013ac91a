// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor {

/// The options by which a step updates each tensor: one rule for all, with values that may differ by group.
struct StepOptions {
  UpdateOptions update;   ///< those of every tensor, where there are no groups
  double max_norm = 0;    ///< 0 = no clipping by the norm
  double loss_scale = 1;  ///< the factor by which the loss was multiplied
  std::vector<UpdateOptions> groups = {};
  std::vector<std::uint32_t> group_of = {};  ///< by tensor: the number of its group; empty without groups

  /// The options of `tensor`. Requires: with groups, the tensor has one (std::out_of_range).
  const UpdateOptions& of(std::uint32_t tensor) const {
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
  bool operator==(const StepOptions&) const = default;
};

}  // namespace castor
