// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <castor/io/extent_allocator.h>
#include <castor/memory/result.h>

namespace castor {

/// One file of a store, in one of its folders.
struct ManifestVolume {
  std::string file_name;        ///< without its folder, which may be mounted elsewhere next time
  std::uint64_t id = 0;         ///< different for each volume
  std::uint64_t end_bytes = 0;  ///< no extent reaches beyond; a multiple of 4096
};

/// The place of a value and the checksums of its bytes.
struct ManifestValue {
  std::uint64_t key = 0;
  std::uint64_t n_bytes = 0;
  std::vector<Extent> extents;           ///< one per volume; n_bytes 0 = none on that volume
  std::vector<std::uint64_t> checksums;  ///< one per block; empty without checksums
};

/// The contents of a store as of one commit: everything that opening it again needs.
///
/// A well-formed manifest:
/// - block_bytes is a power of two from 4 KiB to 1 GiB; there is at least one volume, and no two have the same id;
/// - a file name is 1 to 255 bytes long, not `.` or `..`, and has no slash and no zero byte;
/// - the keys of the values ascend, and no two are equal;
/// - extents are whole pages of 4096 bytes inside their volume, and no two of one volume overlap;
/// - a value is cut into units of block_bytes, the last one rounded up to whole pages, and each unit is whole in one
///   volume; its extents together have exactly that length, and at least one page;
/// - with checksums a value has one per block (n_value_blocks), without them it has none.
struct Manifest {
  std::uint64_t step = 0;
  std::uint64_t store_id = 0;
  std::uint64_t block_bytes = 0;
  bool checksums = false;
  std::vector<ManifestVolume> volumes;
  std::vector<ManifestValue> values;
};

/// The version of the format that this Castor writes, and the only one that it reads.
inline constexpr std::uint32_t kManifestVersion = 1;

/// The number of blocks of a value of `n_bytes`, which have a checksum each: whole ones of `block_bytes`, then the
/// rest's whole pages of 4096 bytes, then the bytes that fill no page. Requires: block_bytes > 0.
std::uint64_t n_value_blocks(std::uint64_t n_bytes, std::uint64_t block_bytes);

/// `manifest` as bytes, all integers little-endian:
///
///     8  "CastorMf"              then per volume              then per value
///     4  version                 8  id                        8  key
///     4  1 = with checksums      8  end_bytes                 8  n_bytes
///     8  length of the whole     8  length of the name        per volume:
///     8  step                    …  the name                  8  offset of the extent
///     8  store id                                             8  bytes of the extent
///     8  block_bytes                                          8  number of checksums
///     8  number of volumes       and at the very end          …  8 bytes each
///     8  number of values        8  XXH3-64 of all before
///
/// Requires: a well-formed manifest (ContractViolation), so that every manifest written can be read.
/// Cost: O(n log n) in the values.
std::vector<std::byte> encode_manifest(const Manifest& manifest);

/// The manifest in `bytes`, which may be anything: each figure is checked before it is used, and memory of a few times
/// their length suffices. `path` is for messages. The result is well formed.
/// Errors: io, one sentence with the first defect, its figures, and advice.
Result<Manifest> decode_manifest(std::span<const std::byte> bytes, std::string_view path);

}  // namespace castor
