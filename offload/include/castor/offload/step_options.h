// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/offload/adam.h>

namespace castor {

/// What a step does to each tensor.
struct StepOptions {
  AdamOptions adam;       ///< of every tensor, where there are no groups
  double max_norm = 0;    ///< 0 = no clipping by the norm
  double loss_scale = 1;  ///< what the loss was multiplied by
  std::vector<AdamOptions> groups = {};
  std::vector<std::uint32_t> group_of = {};  ///< by tensor: the number of its group; where there are groups

  /// Adam's options of `tensor`. Requires: with groups, the tensor has one (std::out_of_range).
  const AdamOptions& of(std::uint32_t tensor) const { return groups.empty() ? adam : groups.at(group_of.at(tensor)); }
  bool needs_norm() const { return max_norm != 0 || loss_scale != 1; }
  bool operator==(const StepOptions&) const = default;
};

}  // namespace castor
