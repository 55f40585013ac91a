// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <castor/memory/result.h>

namespace castor {

/// Physical pages of a device's memory, which can be mapped at any addresses, in any order.
///
/// Threads: one at a time.
class PageSource {
 public:
  /// A page; meaningful to its source alone.
  enum class Page : std::uint64_t {};

  virtual ~PageSource() = default;

  virtual std::uint64_t page_bytes() const = 0;
  /// Takes a page of the device's memory. Errors: does_not_fit.
  virtual Result<Page> create() = 0;
  /// Gives it back. Requires: it is not mapped.
  virtual void destroy(Page page) noexcept = 0;
  /// Maps `pages` one after the other, and returns the address of the first. Requires: at least one, none of them
  /// mapped. Errors: does_not_fit; then none is.
  virtual Result<void*> map(std::span<const Page> pages) = 0;
  /// Ends the mapping that begins at `data`. Requires: it has `n_pages`, and no work uses them any more.
  virtual void unmap(void* data, std::uint64_t n_pages) noexcept = 0;
};

}  // namespace castor
