// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <castor/memory/buffer.h>

namespace castor::bench {

/// Bytes that follow from a key and a version alone, so that bytes of another key, another version or another place are
/// found. No two words of 8 bytes in a value are equal, so nothing below can store them in less room.
void fill_pattern(BufferView bytes, std::uint64_t key, std::uint64_t version);

/// The offset of the first byte that is not what fill_pattern put there; nothing where all are.
std::optional<std::uint64_t> find_difference(BufferView bytes, std::uint64_t key, std::uint64_t version);

}  // namespace castor::bench
