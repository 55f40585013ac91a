// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <castor/memory/result.h>

namespace castor {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Every tensor starts at a multiple of this many bytes in every slot, on every tier: libraries choose kernels by
/// alignment, so equal alignment is part of "same bits everywhere". It is also the sector size of direct I/O.
inline constexpr std::uint64_t kTensorAlignBytes = 512;

/// Every buffer starts at a multiple of this many bytes (a page, which O_DIRECT and page pinning need).
inline constexpr std::uint64_t kBufferAlignBytes = 4096;

/// The smallest multiple of `align` that is not less than `n`. Requires: `align` > 0.
constexpr std::uint64_t align_up(std::uint64_t n, std::uint64_t align) { return (n + align - 1) / align * align; }

/// a - b, or 0 where b is larger.
constexpr std::uint64_t saturating_sub(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

/// Reads a size as the command line writes it: `512MiB`, `8GiB`, `1.5GiB`, `4096`, `0`; also `KiB`, `TiB`, and `K`,
/// `M`, `G`, `T` as short forms of the same powers of two, and with a space before the unit, as format_bytes writes it.
/// Errors: usage, with the text that was not understood.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// Writes a size for people: `0 B`, `3.00 KiB`, `51.2 MiB`, `512 MiB`, `2.25 GiB`.
std::string format_bytes(std::uint64_t n_bytes);

/// The same, rounded up, for the limit that a budget must be raised to: parse_bytes reads back no less than `n_bytes`.
std::string format_bytes_up(std::uint64_t n_bytes);

}  // namespace castor
