// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <castor/rules/update_rule.h>

namespace castor {

/// What a step does to each tensor: one rule for all, with values that may differ by group.
struct StepOptions {
  UpdateOptions update;   ///< of every tensor, where there are no groups
  double max_norm = 0;    ///< 0 = no clipping by the norm
  double loss_scale = 1;  ///< what the loss was multiplied by
  std::vector<UpdateOptions> groups = {};
  std::vector<std::uint32_t> group_of = {};  ///< by tensor: the number of its group; where there are groups

  /// The options of `tensor`. Requires: with groups, the tensor has one (std::out_of_range).
  const UpdateOptions& of(std::uint32_t tensor) const {
    return groups.empty() ? update : groups.at(group_of.at(tensor));
  }
  bool needs_norm() const { return max_norm != 0 || loss_scale != 1; }
  /// Whether tensors are measured before they are updated, some or all.
  bool needs_trust() const {
    const auto has_terms = [](const UpdateOptions& options) { return trust_terms(options, 1).has_value(); };
    return groups.empty() ? has_terms(update) : std::any_of(groups.begin(), groups.end(), has_terms);
  }
  /// Whether it is the direction of their update that is measured.
  bool measures_direction() const { return castor::measures_direction(update); }
  bool operator==(const StepOptions&) const = default;
};

}  // namespace castor
