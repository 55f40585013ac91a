// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>

namespace castor::test {

/// Page-aligned host memory whose every byte can be foretold from a seed.
class TestBuffer {
 public:
  explicit TestBuffer(std::uint64_t n_bytes)
      : n_bytes_(n_bytes), buffer_(Buffer::allocate(memory(), n_bytes == 0 ? 1 : n_bytes).value()) {}
  TestBuffer(std::uint64_t n_bytes, std::uint64_t seed) : TestBuffer(n_bytes) { fill(seed); }

  BufferView view() const { return {buffer_.data(), n_bytes_}; }
  std::byte* data() const { return buffer_.data(); }

  /// Byte i becomes the top byte of a multiplicative hash of seed and i: neighbours differ, and so do seeds.
  static std::byte at(std::uint64_t seed, std::uint64_t i) {
    return static_cast<std::byte>(((i + 1 + seed * 1000003) * 0x9E3779B97F4A7C15ull) >> 56);
  }
  void fill(std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < n_bytes_; ++i) buffer_.data()[i] = at(seed, i);
  }
  bool holds(std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < n_bytes_; ++i)
      if (buffer_.data()[i] != at(seed, i)) return false;
    return true;
  }

 private:
  static HostResource& memory() {
    static HostResource resource;
    return resource;
  }
  std::uint64_t n_bytes_;
  Buffer buffer_;
};

}  // namespace castor::test
