// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/pool_resource.h>

#include <new>

namespace castor {

void* PoolResource::take_kept(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.find(n_bytes);
  if (found == kept_.end() || found->second.empty()) return nullptr;
  void* data = found->second.back();
  found->second.pop_back();
  return data;
}

Result<void*> PoolResource::allocate(std::uint64_t n_bytes) {
  if (void* kept = take_kept(n_bytes)) return kept;
  auto data = upstream_.allocate(n_bytes);
  if (data.ok() || trim() == 0) return data;
  return upstream_.allocate(n_bytes);
}

void PoolResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    kept_[n_bytes].push_back(data);
  } catch (const std::bad_alloc&) {  // no room to remember it
    upstream_.deallocate(data, n_bytes);
  }
}

std::uint64_t PoolResource::trim() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t given_back_bytes = 0;
  for (auto& [n_bytes, blocks] : kept_) {
    for (void* block : blocks) upstream_.deallocate(block, n_bytes);
    given_back_bytes += n_bytes * blocks.size();
  }
  kept_.clear();
  return given_back_bytes + upstream_.trim();
}

std::uint64_t PoolResource::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t total_bytes = 0;
  for (const auto& [n_bytes, blocks] : kept_) total_bytes += n_bytes * blocks.size();
  return total_bytes;
}

}  // namespace castor
