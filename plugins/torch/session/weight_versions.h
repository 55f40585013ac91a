// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>
#include <castor/plugins/torch/model_parts.h>

#include <cstdint>
#include <string>
#include <vector>

namespace castor {

/// Finds weights that a program has written itself. A strategy trains masters, from which the weights are made at every
/// update, so what is written to a weight alone is lost. And counts the strategy's own updates as changes in place, so that
/// autograd refuses the backward pass of a graph that is older: it would read the new weights.
class WeightVersions {
 public:
  WeightVersions() = default;
  /// Takes the present weights as they are.
  explicit WeightVersions(const NamedTensors& params);

  /// The strategy has changed the weights with these numbers.
  void count_up(const std::vector<std::uint32_t>& changed);

  /// The weights with these numbers were given new values, and so were their masters.
  void renew(const std::vector<std::uint32_t>& given);

  /// Takes the weights with these numbers as they are now: their masters have the same values.
  void take(const std::vector<std::uint32_t>& written);

  /// Errors: usage for the first weight that was written in place since it was taken.
  Result<void> check() const;
  /// The same for the weight with this number.
  Result<void> check(std::uint32_t id) const;

 private:
  struct Weight {
    std::string name;
    at::Tensor tensor;
    std::int64_t version;
  };

  std::vector<Weight> weights_;
};

}  // namespace castor
