// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include <castor/memory/page_source.h>

namespace castor::test {

/// Pages of a fake GPU over ordinary host memory. What is mapped is filled with a pattern, so that a read of bytes that
/// nothing wrote shows; the addresses of one page share no bytes.
class FakePages final : public PageSource {
 public:
  explicit FakePages(std::uint64_t grain_bytes) : grain_bytes_(grain_bytes) {}

  std::uint64_t grain_bytes() const override { return grain_bytes_; }
  Result<Page> create(std::uint64_t page_bytes) override {
    most_bytes_ = std::max(most_bytes_, held_bytes_ += page_bytes);
    sizes_.push_back(page_bytes);
    return Page{sizes_.size() - 1};
  }
  void destroy(Page page) noexcept override { held_bytes_ -= sizes_[static_cast<std::size_t>(page)]; }
  Result<void*> map(std::span<const Page> pages, std::uint64_t page_bytes) override {
    void* const data = ::operator new(pages.size() * page_bytes, kAlign);
    std::memset(data, kPattern, pages.size() * page_bytes);
    return data;
  }
  void unmap(void* data, std::uint64_t) noexcept override { ::operator delete(data, kAlign); }

  std::uint64_t held_bytes() const { return held_bytes_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  static constexpr std::align_val_t kAlign{512};
  static constexpr int kPattern = 0xCB;

  const std::uint64_t grain_bytes_;
  std::vector<std::uint64_t> sizes_;  ///< of the pages, by number
  std::uint64_t held_bytes_ = 0, most_bytes_ = 0;
};

}  // namespace castor::test
