// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <castor/memory/event.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/page_source.h>

namespace castor {

/// Slots of a device's memory in whole pages. Whichever pages are free make the next slot, so slots of different sizes
/// leave no holes, and the pool never has more pages than slots that were in use at once.
///
/// A slot that was given back stays mapped as long as its pages are not needed, and is the next slot of its size: then
/// nothing is mapped. The caller orders its work after the work that used the slot before (one stream, or events); the
/// pool waits for that work only where the pages get other addresses.
class PagedPool final : public MemoryResource {
 public:
  /// `source` is borrowed. `queued` returns an event that is reached once all work that may use slots now, and is queued
  /// already, is done.
  PagedPool(PageSource& source, std::function<Event()> queued) : source_(source), queued_(std::move(queued)) {}
  /// Waits for the work that uses slots. Requires: all slots were given back.
  ~PagedPool() override;

  std::uint64_t page_bytes() const { return source_.page_bytes(); }
  /// Bytes of all pages that the pool has.
  std::uint64_t held_bytes() const;

  /// Errors: those of the source; then nothing has changed but that pages may be free.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  /// Gives the pages of no slot back to the source, after the work that used them.
  std::uint64_t trim() noexcept override;

 private:
  using Pages = std::vector<PageSource::Page>;
  struct Unused {
    void* data;
    Pages pages;
    Event last_use;
  };

  void* take_same(std::uint64_t n_pages);
  Result<Pages> take_pages(std::uint64_t n_pages);
  void unmap(std::list<Unused>::iterator slot);
  bool unmap_oldest();

  PageSource& source_;
  const std::function<Event()> queued_;
  mutable std::mutex mutex_;
  std::map<void*, Pages> used_;
  std::list<Unused> unused_;  ///< mapped; given back last is last
  Pages free_;                ///< not mapped
  std::uint64_t n_pages_ = 0;
};

}  // namespace castor
