// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/tensor_table.h>

#include <string>

#include <castor/memory/result.h>

namespace castor {

TensorTable::TensorTable(const ChunkLayout& layout)
    : layout_(layout), states_(layout.tensors.size(), TensorState::free), counts_(layout.chunks.size()) {
  for (std::size_t chunk = 0; chunk < counts_.size(); ++chunk)
    counts_[chunk][index(TensorState::free)] = static_cast<std::uint32_t>(layout.chunks[chunk].tensors.size());
}

void TensorTable::set(std::uint32_t tensor, TensorState to) {
  TensorState& state = states_.at(tensor);
  if (state == to) return;
  if (!allowed(state, to))
    throw ContractViolation("tensor " + std::to_string(tensor) + " cannot go from " + name(state) + " to " + name(to));
  auto& counts = counts_[layout_.tensors[tensor].chunk];
  --counts[index(state)];
  ++counts[index(to)];
  state = to;
}

}  // namespace castor
