// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/pool_resource.h>

#include <algorithm>
#include <new>
#include <utility>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

/// Upstream is asked first only while at most 1/kIdlePart of the bytes in use lies idle. The less that is, the sooner
/// blocks of two sizes that are asked for in turns are made of one another, for which CUDA registers their pages anew
/// (docs/planning.md).
constexpr std::uint64_t kIdlePart = 32;

/// HostResource moves pages between blocks in pieces of this size, so a smaller remainder is not worth keeping.
constexpr std::uint64_t kLeastPieceBytes = 2 * kMiB;

/// The sizes to make of `sum_bytes` for a request of `n_bytes`: that one, and of the remainder more blocks of the same
/// size, which are likely to be requested next.
std::vector<std::uint64_t> sizes_of(std::uint64_t n_bytes, std::uint64_t sum_bytes) {
  if (sum_bytes <= n_bytes) return {n_bytes};
  const std::uint64_t n_same = n_bytes < kLeastPieceBytes ? 1 : sum_bytes / n_bytes;
  std::vector<std::uint64_t> sizes(n_same, n_bytes);
  const std::uint64_t rest_bytes = sum_bytes - n_same * n_bytes;
  if (rest_bytes >= kLeastPieceBytes) sizes.push_back(rest_bytes);
  return sizes;
}

}  // namespace

Result<void*> PoolResource::allocate(std::uint64_t n_bytes) {
  const std::lock_guard lock(mutex_);
  auto data = serve(n_bytes);
  if (data.ok()) peak_in_use_bytes_ = std::max(peak_in_use_bytes_, in_use_bytes_ += n_bytes);
  return data;
}

Result<void*> PoolResource::serve(std::uint64_t n_bytes) {
  if (void* kept = take_same(n_bytes)) return kept;
  if (n_bytes == 0 || kept_bytes_ <= in_use_bytes_ / kIdlePart) {
    auto data = upstream_.allocate(n_bytes);
    if (data.ok() || (kept_bytes_ == 0 && !keep_reserve())) return data;
  }
  auto data = make_of_kept(n_bytes);
  return data.ok() || !keep_reserve() ? data : make_of_kept(n_bytes);
}

void* PoolResource::take_same(std::uint64_t n_bytes) {
  const auto found = kept_.find(n_bytes);
  if (found == kept_.end()) return nullptr;
  void* data = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) kept_.erase(found);
  kept_bytes_ -= n_bytes;
  return data;
}

Result<void*> PoolResource::make_of_kept(std::uint64_t n_bytes) {
  std::vector<MemoryBlock> blocks = take_about(n_bytes);
  const auto outcome = upstream_.exchange(blocks, sizes_of(n_bytes, total_bytes(blocks)));
  for (std::size_t i = outcome.ok() ? 1 : 0; i < blocks.size(); ++i) keep(blocks[i].data, blocks[i].n_bytes);
  if (!outcome.ok()) return outcome.error();
  return blocks.front().data;
}

/// Takes kept blocks for `n_bytes`: the smallest that holds the bytes still missing, or else the largest, until they
/// suffice or none is left.
std::vector<MemoryBlock> PoolResource::take_about(std::uint64_t n_bytes) {
  std::vector<MemoryBlock> taken;
  for (std::uint64_t taken_bytes = 0; taken_bytes < n_bytes && !kept_.empty(); taken_bytes += taken.back().n_bytes) {
    auto next = kept_.lower_bound(n_bytes - taken_bytes);
    if (next == kept_.end()) --next;
    const std::uint64_t its_bytes = next->first;
    taken.push_back({take_same(its_bytes), its_bytes});
  }
  return taken;
}

void PoolResource::keep(void* data, std::uint64_t n_bytes) {
  const auto [blocks, is_new] = kept_.try_emplace(n_bytes);
  try {
    blocks->second.push_back(data);
  } catch (...) {
    if (is_new) kept_.erase(blocks);  // no list of blocks is empty
    throw;
  }
  kept_bytes_ += n_bytes;
}

void PoolResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  in_use_bytes_ -= n_bytes;
  try {
    keep(data, n_bytes);
  } catch (const std::bad_alloc&) {  // no memory for its entry in the list
    upstream_.deallocate(data, n_bytes);
  }
}

Result<void> PoolResource::set_aside(std::uint64_t n_bytes) {
  const auto data = upstream_.allocate(n_bytes);
  const std::lock_guard lock(mutex_);
  if (data.ok()) return reserve_.push_back({*data, n_bytes}), Result<void>();
  return kept_bytes_ < n_bytes ? data.error() : set_aside_of_kept(n_bytes);
}

Result<void> PoolResource::set_aside_of_kept(std::uint64_t n_bytes) {
  void* same = take_same(n_bytes);
  if (same == nullptr) {
    CASTOR_ASSIGN(same, make_of_kept(n_bytes));
  }
  reserve_.push_back({same, n_bytes});
  return {};
}

std::uint64_t PoolResource::reserve_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_bytes(reserve_);
}

void PoolResource::use_reserve() {
  const std::lock_guard lock(mutex_);
  (void)keep_reserve();
}

/// True where there were any.
bool PoolResource::keep_reserve() {
  const auto reserve = std::exchange(reserve_, {});
  for (const auto& [data, n_bytes] : reserve) keep(data, n_bytes);
  return !reserve.empty();
}

void PoolResource::drop_reserve() noexcept {
  std::vector<MemoryBlock> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(reserve_);
  }
  for (const auto& [data, n_bytes] : dropped) upstream_.deallocate(data, n_bytes);
}

std::uint64_t PoolResource::trim() noexcept {
  const std::uint64_t reserve_bytes = this->reserve_bytes();
  drop_reserve();
  const std::lock_guard lock(mutex_);
  for (auto& [n_bytes, blocks] : kept_)
    for (void* block : blocks) upstream_.deallocate(block, n_bytes);
  kept_.clear();
  return reserve_bytes + std::exchange(kept_bytes_, 0) + upstream_.trim();
}

std::uint64_t PoolResource::peak_in_use_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_in_use_bytes_;
}

std::uint64_t PoolResource::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace castor
