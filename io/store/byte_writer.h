// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace castor {

/// Writes integers, little-endian on every machine, and characters to bytes.
class ByteWriter {
 public:
  void reserve(std::uint64_t n_bytes) { bytes_.reserve(n_bytes); }
  void add_word(std::uint64_t value) { add_integer(value, 8); }
  void add_half(std::uint32_t value) { add_integer(value, 4); }
  void add(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  void add_integer(std::uint64_t value, unsigned n_bytes) {
    for (unsigned i = 0; i < n_bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace castor
