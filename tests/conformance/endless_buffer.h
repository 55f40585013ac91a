// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>

namespace castor::test {

/// Address space of any size over the same few pages, so that a transfer of gigabytes needs no gigabytes of memory.
class EndlessBuffer {
 public:
  static constexpr std::uint64_t kSegmentBytes = 16 * kMiB;

  explicit EndlessBuffer(std::uint64_t n_segments) : n_bytes_(n_segments * kSegmentBytes) {
    const int pages = memfd_create("castor-test", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(pages, kSegmentBytes), 0);
    void* range = mmap(nullptr, n_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(range, MAP_FAILED);
    data_ = static_cast<std::byte*>(range);
    for (std::uint64_t i = 0; i < n_segments; ++i)
      EXPECT_NE(
          mmap(data_ + i * kSegmentBytes, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages, 0),
          MAP_FAILED);
    close(pages);
  }
  ~EndlessBuffer() { munmap(data_, n_bytes_); }
  EndlessBuffer(const EndlessBuffer&) = delete;
  EndlessBuffer& operator=(const EndlessBuffer&) = delete;

  BufferView view() const { return {data_, n_bytes_}; }

 private:
  std::uint64_t n_bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace castor::test
