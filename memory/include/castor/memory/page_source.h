// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/memory/result.h>

namespace castor {

/// Physical pages of a device's memory, which can be mapped at any addresses, in any order, and at several at once.
///
/// Threads: one at a time.
class PageSource {
 public:
  /// A page; meaningful to its source alone.
  enum class Page : std::uint64_t {};

  virtual ~PageSource() = default;

  /// Pages have a multiple of these bytes. To map a page takes the same time for every size: on one H200 36 µs, and 20
  /// to unmap it.
  virtual std::uint64_t grain_bytes() const = 0;
  /// Takes a page of the device's memory. Errors: does_not_fit.
  virtual Result<Page> create(std::uint64_t page_bytes) = 0;
  /// Gives it back. Requires: it is not mapped.
  virtual void destroy(Page page) noexcept = 0;
  /// Maps `pages`, all of `page_bytes`, one after the other, and returns the address of the first. A page that is mapped already has one
  /// address more then: what is written at one is read at another by work that begins after the writing has ended.
  /// Requires: at least one. Errors: does_not_fit; then nothing has changed.
  virtual Result<void*> map(std::span<const Page> pages, std::uint64_t page_bytes) = 0;
  /// Ends the mapping that begins at `data`. Requires: it has `n_bytes`, and no work uses them any more.
  virtual void unmap(void* data, std::uint64_t n_bytes) noexcept = 0;
};

}  // namespace castor
