// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/limited_resource.h>

#include <algorithm>
#include <numeric>
#include <string>

#include <castor/memory/bytes.h>
#include <castor/memory/shortage.h>

namespace castor {

Error LimitedResource::full(std::uint64_t n_bytes, std::uint64_t free_bytes) const {
  return does_not_fit({budget_.tier(), budget_.limit_bytes() - free_bytes + n_bytes, budget_.limit_bytes()},
                      std::string(name(budget_.tier())) + " tier: " + format_bytes(n_bytes) + " asked for, " +
                          format_bytes(free_bytes) + " free under the " + format_bytes(budget_.limit_bytes()) +
                          " budget");
}

Result<void*> LimitedResource::allocate(std::uint64_t n_bytes) {
  if (!budget_.try_reserve(n_bytes)) return full(n_bytes, budget_.free_bytes());
  auto data = upstream_.allocate(n_bytes);
  if (!data.ok()) budget_.release(n_bytes);
  return data;
}

void LimitedResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  upstream_.deallocate(data, n_bytes);
  budget_.release(n_bytes);
}

Result<void> LimitedResource::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  const std::uint64_t before_bytes = total_bytes(blocks);
  const std::uint64_t after_bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::uint64_t reserved_bytes = std::max(before_bytes, after_bytes);
  if (!budget_.try_reserve(reserved_bytes - before_bytes))
    return full(after_bytes, budget_.free_bytes() + before_bytes);
  auto outcome = upstream_.exchange(blocks, sizes);
  budget_.release(reserved_bytes - total_bytes(blocks));
  return outcome;
}

}  // namespace castor
