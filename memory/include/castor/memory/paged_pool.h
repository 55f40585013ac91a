// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include <castor/memory/event.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/page_source.h>

namespace castor {

/// Slots of a device's memory in whole pages. Whichever pages are free make the next slot, so slots of different sizes
/// leave no holes, and the pool never has more pages than slots that were in use at once.
///
/// To map a slot takes longer than to fill it, so a mapping stays when its slot is given back, also when some of its
/// pages become part of another: a page has several addresses then, one of which is in use. Once all pages of a mapping
/// are free it is a slot again without any work. Of several such mappings the first that was made is taken: then a step
/// that asks for the same sizes in the same order as the one before finds every slot that the one before has mapped.
///
/// The caller orders its work on a slot after the work that was queued when its pages were given back (one stream, or
/// events). The pool waits for work only where a mapping ends.
class PagedPool final : public MemoryResource {
 public:
  /// Pages of `page_bytes`, a multiple of the grain of `source`, which is borrowed. `queued` returns an event that is reached once all work that may use slots now, and is queued
  /// already, is done.
  PagedPool(PageSource& source, std::uint64_t page_bytes, std::function<Event()> queued)
      : source_(source), page_bytes_(page_bytes), queued_(std::move(queued)) {}
  /// Waits for the work that uses slots. Requires: all slots were given back.
  ~PagedPool() override;

  std::uint64_t page_bytes() const { return page_bytes_; }
  /// Bytes of all pages that the pool has.
  std::uint64_t held_bytes() const;

  /// Errors: those of the source; then nothing has changed but that pages may be free.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  /// Gives the pages of no slot back to the source, after the work that used them.
  std::uint64_t trim() noexcept override;

 private:
  struct Page;

  struct Mapping {
    void* data = nullptr;
    std::vector<Page*> pages;
    std::uint64_t n_used = 0;     ///< of its pages, those in use through any mapping
    std::uint64_t number = 0;     ///< in the order of their making
    std::uint64_t last_turn = 0;  ///< when it became a slot
    bool is_slot = false;
    Event last_use;  ///< of its last slot
  };

  struct Page {
    PageSource::Page page;
    std::vector<Mapping*> mappings;  ///< of which it is a part
    bool used = false;
  };

  Result<void> make(std::uint64_t n_pages);
  Result<std::vector<Page*>> take_free(std::uint64_t n_pages);
  static std::uint64_t first_free_mapping(const Page& page);
  void count(Mapping& mapping, bool used);
  void set_used(const Mapping& mapping, bool used);
  void limit_mappings(std::uint64_t n_more_pages);
  bool unmap_all_but_slots();
  void unmap(Mapping& mapping);

  PageSource& source_;
  const std::uint64_t page_bytes_;
  const std::function<Event()> queued_;
  mutable std::mutex mutex_;  ///< guards the members that follow
  std::list<Page> pages_;
  std::map<void*, Mapping> mappings_;
  std::map<std::uint64_t, std::map<std::uint64_t, Mapping*>>
      free_;                          ///< mappings without used pages, by size and number
  std::uint64_t n_mapped_pages_ = 0;  ///< summed over the mappings
  std::uint64_t n_made_ = 0;          ///< mappings
  std::uint64_t turn_ = 0;            ///< counts slots
};

}  // namespace castor
