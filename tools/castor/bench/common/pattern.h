// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <castor/memory/buffer.h>

namespace castor::bench {

/// Bytes that depend on a key and a version alone, so that bytes of another key, another version or another place are
/// detected. No two words of 8 bytes in a value are equal, so no layer below can compress or deduplicate them.
void fill_pattern(BufferView bytes, std::uint64_t key, std::uint64_t version);

/// The offset of the first byte that differs from fill_pattern's; nothing if all are equal.
std::optional<std::uint64_t> find_difference(BufferView bytes, std::uint64_t key, std::uint64_t version);

}  // namespace castor::bench
