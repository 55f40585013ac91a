// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/model_parts.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace castor {

/// Finds which of the weights that a program may write it has written: by their bytes, since what is written through
/// `parameter.data` counts up no version. The others keep their masters, which are finer than weights of 16 bits.
class LentForWriting {
 public:
  LentForWriting() = default;
  explicit LentForWriting(NamedTensors params) : params_(std::move(params)) {}

  /// Notes the weights with these numbers, unless they were lent already. Requires, as written: they have memory.
  void lend(const std::vector<std::uint32_t>& ids);
  /// Of these weights, those that differ from what they were when they were lent.
  std::vector<std::uint32_t> written(const std::vector<std::uint32_t>& ids) const;
  void take_back(const std::vector<std::uint32_t>& ids);

 private:
  struct Lent {
    std::size_t digest = 0;
    int n = 0;  ///< times
  };

  NamedTensors params_;
  std::unordered_map<std::uint32_t, Lent> lent_;
};

}  // namespace castor
