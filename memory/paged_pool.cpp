// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/paged_pool.h>

#include <algorithm>
#include <iterator>

namespace castor {

PagedPool::~PagedPool() { trim(); }

std::uint64_t PagedPool::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_pages_ * page_bytes();
}

Result<void*> PagedPool::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("PagedPool: an allocation of 0 bytes");
  const std::lock_guard lock(mutex_);
  const std::uint64_t n_pages = (n_bytes + page_bytes() - 1) / page_bytes();
  if (void* const data = take_same(n_pages)) return data;
  CASTOR_ASSIGN(Pages pages, take_pages(n_pages));
  auto data = source_.map(pages);
  if (!data.ok()) {
    free_.insert(free_.end(), pages.begin(), pages.end());
    return data;
  }
  used_[*data] = std::move(pages);
  return data;
}

/// The slot of this size that was given back last; null where there is none.
void* PagedPool::take_same(std::uint64_t n_pages) {
  const auto same = std::find_if(unused_.rbegin(), unused_.rend(),
                                 [n_pages](const Unused& slot) { return slot.pages.size() == n_pages; });
  if (same == unused_.rend()) return nullptr;
  void* const data = same->data;
  used_[data] = std::move(same->pages);
  unused_.erase(std::next(same).base());
  return data;
}

/// Free pages, then those of the oldest unused slots, then new ones.
Result<PagedPool::Pages> PagedPool::take_pages(std::uint64_t n_pages) {
  while (free_.size() < n_pages && unmap_oldest()) {
  }
  while (free_.size() < n_pages) {
    CASTOR_ASSIGN(const PageSource::Page page, source_.create());
    free_.push_back(page);
    ++n_pages_;
  }
  const auto first = free_.end() - static_cast<std::ptrdiff_t>(n_pages);
  Pages pages(first, free_.end());
  free_.erase(first, free_.end());
  return pages;
}

/// Waits for the last use of the slot.
void PagedPool::unmap(std::list<Unused>::iterator slot) {
  (void)slot->last_use.wait();  // work that failed uses nothing any more
  source_.unmap(slot->data, slot->pages.size());
  free_.insert(free_.end(), slot->pages.begin(), slot->pages.end());
  unused_.erase(slot);
}

/// Unmaps the oldest unused slot whose last use has ended; where none has, the oldest. False where there is none.
bool PagedPool::unmap_oldest() {
  if (unused_.empty()) return false;
  const auto ended =
      std::find_if(unused_.begin(), unused_.end(), [](const Unused& slot) { return slot.last_use.ready(); });
  unmap(ended != unused_.end() ? ended : unused_.begin());
  return true;
}

void PagedPool::deallocate(void* data, std::uint64_t) noexcept {
  const std::lock_guard lock(mutex_);
  auto used = used_.extract(data);
  unused_.push_back({data, std::move(used.mapped()), queued_()});
}

std::uint64_t PagedPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  while (unmap_oldest()) {
  }
  const std::uint64_t n_bytes = free_.size() * page_bytes();
  for (const PageSource::Page page : free_) source_.destroy(page);
  n_pages_ -= free_.size();
  free_.clear();
  return n_bytes;
}

}  // namespace castor
