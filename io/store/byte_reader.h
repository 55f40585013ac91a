// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <castor/memory/result.h>

namespace castor {

/// Reads integers, little-endian on every machine, and characters from the front of bytes.
///
/// Requires: left_bytes() suffices for each read (ContractViolation).
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t left_bytes() const { return bytes_.size(); }
  std::uint64_t word() { return integer(8); }
  std::uint32_t half() { return static_cast<std::uint32_t>(integer(4)); }
  std::string text(std::uint64_t n_bytes) {
    std::string text;
    for (const auto byte : take(n_bytes)) text.push_back(static_cast<char>(byte));
    return text;
  }

 private:
  std::span<const std::byte> take(std::uint64_t n_bytes) {
    if (n_bytes > bytes_.size()) throw ContractViolation("more bytes are taken than are left");
    const auto part = bytes_.first(n_bytes);
    bytes_ = bytes_.subspan(n_bytes);
    return part;
  }
  std::uint64_t integer(unsigned n_bytes) {
    const auto part = take(n_bytes);
    std::uint64_t value = 0;
    for (unsigned i = 0; i < n_bytes; ++i) value |= std::to_integer<std::uint64_t>(part[i]) << (8 * i);
    return value;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace castor
