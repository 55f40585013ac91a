// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/paged_pool.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace castor {
namespace {

/// Mappings per page, on average: enough for the slots of a step, and little memory of the driver.
constexpr std::uint64_t kMostMappings = 8;

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

}  // namespace

PagedPool::~PagedPool() { trim(); }

std::uint64_t PagedPool::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return pages_.size() * page_bytes_;
}

Result<void*> PagedPool::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("PagedPool: an allocation of 0 bytes");
  const std::lock_guard lock(mutex_);
  const std::uint64_t n_pages = (n_bytes + page_bytes_ - 1) / page_bytes_;
  if (free_[n_pages].empty()) CASTOR_TRY(make(n_pages));
  Mapping* const slot = free_[n_pages].begin()->second;
  slot->is_slot = true;
  slot->last_turn = ++turn_;
  set_used(*slot, true);
  return slot->data;
}

/// Maps free pages; instead of all mappings that are no slots, where these leave it no addresses or no memory for tables.
Result<void> PagedPool::make(std::uint64_t n_pages) {
  CASTOR_ASSIGN(const std::vector<Page*> pages, take_free(n_pages));
  limit_mappings(n_pages);
  std::vector<PageSource::Page> to_map;
  for (const Page* page : pages) to_map.push_back(page->page);
  auto data = source_.map(to_map, page_bytes_);
  if (!data.ok() && unmap_all_but_slots()) data = source_.map(to_map, page_bytes_);
  if (!data.ok()) return data.error();
  Mapping& mapping = mappings_[*data];
  mapping.data = *data;
  mapping.number = ++n_made_;
  mapping.pages = pages;
  n_mapped_pages_ += n_pages;
  for (Page* page : pages) page->mappings.push_back(&mapping);
  free_[n_pages][mapping.number] = &mapping;
  return {};
}

/// Free pages, and new ones where there are too few. Pages of mappings that could be slots are left for these, of the
/// first that were made above all.
Result<std::vector<PagedPool::Page*>> PagedPool::take_free(std::uint64_t n_pages) {
  std::vector<std::pair<std::uint64_t, Page*>> free;
  for (Page& page : pages_)
    if (!page.used) free.emplace_back(first_free_mapping(page), &page);
  while (free.size() < n_pages) {
    CASTOR_ASSIGN(const PageSource::Page page, source_.create(page_bytes_));
    pages_.push_back({.page = page});
    free.emplace_back(kNone, &pages_.back());
  }
  std::stable_sort(free.begin(), free.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Page*> taken;
  for (std::uint64_t i = 0; i < n_pages; ++i) taken.push_back(free[i].second);
  return taken;
}

/// The number of the first mapping that the page is a part of, of those whose pages are all free; kNone where there is
/// none.
std::uint64_t PagedPool::first_free_mapping(const Page& page) {
  std::uint64_t first = kNone;
  for (const Mapping* mapping : page.mappings)
    if (mapping->n_used == 0) first = std::min(first, mapping->number);
  return first;
}

void PagedPool::set_used(const Mapping& slot, bool used) {
  for (Page* page : slot.pages) {
    page->used = used;
    for (Mapping* mapping : page->mappings) count(*mapping, used);
  }
}

/// One page of `mapping` became used, or free.
void PagedPool::count(Mapping& mapping, bool used) {
  const bool was_free = mapping.n_used == 0;
  used ? ++mapping.n_used : --mapping.n_used;
  if (was_free) free_[mapping.pages.size()].erase(mapping.number);
  if (mapping.n_used == 0) free_[mapping.pages.size()][mapping.number] = &mapping;
}

void PagedPool::deallocate(void* data, std::uint64_t) noexcept {
  const std::lock_guard lock(mutex_);
  Mapping& slot = mappings_.at(data);
  slot.is_slot = false;
  slot.last_use = queued_();
  set_used(slot, false);
}

/// Ends the mappings that were slots the longest time ago, until one of `n_more_pages` may be added.
void PagedPool::limit_mappings(std::uint64_t n_more_pages) {
  while (n_mapped_pages_ + n_more_pages > kMostMappings * pages_.size()) {
    Mapping* oldest = nullptr;
    for (auto& [data, mapping] : mappings_)
      if (!mapping.is_slot && (!oldest || mapping.last_turn < oldest->last_turn)) oldest = &mapping;
    if (oldest == nullptr) return;
    unmap(*oldest);
  }
}

/// True where there were any.
bool PagedPool::unmap_all_but_slots() {
  const std::size_t n_before = mappings_.size();
  for (auto next = mappings_.begin(); next != mappings_.end();) {
    Mapping& mapping = (next++)->second;
    if (!mapping.is_slot) unmap(mapping);
  }
  return mappings_.size() < n_before;
}

/// Waits for the last use of the mapping, which is no slot.
void PagedPool::unmap(Mapping& mapping) {
  (void)mapping.last_use.wait();  // work that failed uses nothing any more
  source_.unmap(mapping.data, mapping.pages.size() * page_bytes_);
  n_mapped_pages_ -= mapping.pages.size();
  for (Page* page : mapping.pages) std::erase(page->mappings, &mapping);
  free_[mapping.pages.size()].erase(mapping.number);
  mappings_.erase(mapping.data);
}

std::uint64_t PagedPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  (void)unmap_all_but_slots();
  const std::uint64_t n_before = pages_.size();
  for (const Page& page : pages_)
    if (!page.used) source_.destroy(page.page);
  std::erase_if(pages_, [](const Page& page) { return !page.used; });
  return (n_before - pages_.size()) * page_bytes_;
}

}  // namespace castor
