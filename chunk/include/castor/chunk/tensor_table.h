// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/chunk/tensor_state.h>

namespace castor {

/// The state of every tensor, and for each payload chunk the number of its tensors in each state.
class TensorTable {
 public:
  /// All tensors start FREE. `layout` is borrowed.
  explicit TensorTable(const ChunkLayout& layout);

  TensorState state(std::uint32_t tensor) const { return states_.at(tensor); }

  /// Puts `tensor` in state `to`; staying in a state is no transition. Requires: a legal transition (a
  /// ContractViolation names the tensor and both states).
  void set(std::uint32_t tensor, TensorState to);

  /// The number of tensors of payload chunk `chunk` that are in `state`.
  std::uint32_t count(std::uint32_t chunk, TensorState state) const {
    return counts_.at(chunk)[static_cast<std::size_t>(state)];
  }

 private:
  const ChunkLayout& layout_;
  std::vector<TensorState> states_;
  std::vector<std::array<std::uint32_t, kNTensorStates>> counts_;
};

}  // namespace castor
