// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "store/checksum.h"

namespace castor::test {

inline void put_word(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) bytes.at(at + i) = static_cast<std::byte>(value >> (8 * i));
}

/// Makes length and checksum of a manifest fit its other bytes, so that a reader looks behind them. Bytes shorter than
/// an empty manifest (72) are left alone.
inline void reseal_manifest(std::vector<std::byte>& bytes) {
  if (bytes.size() < 72) return;
  put_word(bytes, 16, bytes.size());
  put_word(bytes, bytes.size() - 8, checksum({bytes.data(), bytes.size() - 8}));
}

}  // namespace castor::test
