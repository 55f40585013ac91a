// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/memory_resource.h>

namespace castor {

Result<void> MemoryResource::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  blocks.reserve(sizes.size());
  for (const auto& [data, n_bytes] : blocks) deallocate(data, n_bytes);
  blocks.clear();
  for (const std::uint64_t n_bytes : sizes) {
    const auto made = allocate(n_bytes);
    if (made.ok()) {
      blocks.push_back({*made, n_bytes});
      continue;
    }
    for (const auto& [data, its_bytes] : blocks) deallocate(data, its_bytes);
    blocks.clear();
    return made.error();
  }
  return {};
}

std::uint64_t total_bytes(std::span<const MemoryBlock> blocks) {
  std::uint64_t n_bytes = 0;
  for (const MemoryBlock& block : blocks) n_bytes += block.n_bytes;
  return n_bytes;
}

}  // namespace castor
