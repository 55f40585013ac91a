// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <castor/memory/result.h>

namespace castor::shapes {

/// A module with parameters of its own: elements of each.
struct Unit {
  std::string name;
  std::vector<std::uint64_t> numels;
};

/// A model as its publication describes it, without its code: parameters by unit, in the order of the forward pass.
struct Model {
  std::string name;
  std::vector<Unit> units;
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t head_unit = 0;  ///< the unit whose weights the output reads: the last one, or the embedding where tied

  std::uint64_t n_params() const;
};

/// The models there are, in the order of their families.
std::vector<std::string> model_names();

/// Errors: usage, naming what there is.
Result<Model> model(std::string_view name);

}  // namespace castor::shapes
