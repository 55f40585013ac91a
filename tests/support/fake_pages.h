// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include <castor/memory/page_source.h>

namespace castor::test {

/// Pages of a fake GPU over ordinary host memory. What is mapped is filled with a pattern, so that a read of bytes that
/// nothing wrote shows.
class FakePages final : public PageSource {
 public:
  explicit FakePages(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}

  std::uint64_t page_bytes() const override { return page_bytes_; }
  Result<Page> create() override {
    most_bytes_ = std::max(most_bytes_, ++n_pages_ * page_bytes_);
    return Page{++n_created_};
  }
  void destroy(Page) noexcept override { --n_pages_; }
  Result<void*> map(std::span<const Page> pages) override {
    void* const data = ::operator new(pages.size() * page_bytes_, kAlign);
    std::memset(data, kPattern, pages.size() * page_bytes_);
    return data;
  }
  void unmap(void* data, std::uint64_t) noexcept override { ::operator delete(data, kAlign); }

  std::uint64_t held_bytes() const { return n_pages_ * page_bytes_; }
  std::uint64_t most_bytes() const { return most_bytes_; }

 private:
  static constexpr std::align_val_t kAlign{512};
  static constexpr int kPattern = 0xCB;

  const std::uint64_t page_bytes_;
  std::uint64_t n_created_ = 0, n_pages_ = 0, most_bytes_ = 0;
};

}  // namespace castor::test
