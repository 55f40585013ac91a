// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/virtual_memory.h>

#include <algorithm>
#include <numeric>

#include <castor/memory/bytes.h>

namespace castor {

Result<void*> VirtualMemory::allocate(std::uint64_t n_bytes) {
  fresh_bytes_ += n_bytes;
  const std::uintptr_t begin = next_;
  next_ += align_up(n_bytes, kBufferAlignBytes);
  return reinterpret_cast<void*>(begin);
}

Result<void> VirtualMemory::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  const std::uint64_t given_bytes = total_bytes(blocks);
  const std::uint64_t asked_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::uint64_t exchanged_bytes = std::min(given_bytes, asked_bytes);
  CASTOR_TRY(MemoryResource::exchange(blocks, sizes));
  exchanged_bytes_ += exchanged_bytes;
  fresh_bytes_ -= exchanged_bytes;
  return {};
}

}  // namespace castor
