// SPDX-License-Identifier: Apache-2.0
// The names of a durable store's files, and its block sizes (docs/storage.md).
#pragma once

#include <cstdint>
#include <string_view>

#include <castor/memory/bytes.h>

namespace castor {

/// The manifest, in the first folder.
inline constexpr const char* kManifestName = "castor.manifest";

/// `castor-0123456789abcdef-0.data`: the values on volume 0.
inline constexpr std::string_view kDataPrefix = "castor-";
inline constexpr std::string_view kDataSuffix = ".data";

/// `.castor-XXXXXX`: a file that has its name for a moment, where the file system has no files without one.
inline constexpr std::string_view kUnnamedPrefix = ".castor-";

constexpr bool has_affixes(std::string_view name, std::string_view prefix, std::string_view suffix) {
  return name.size() >= prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix);
}

/// The size of the blocks in which values move and are checked: a power of two from 4 KiB to 1 GiB.
constexpr bool is_store_block_size(std::uint64_t n_bytes) {
  return n_bytes >= kBufferAlignBytes && n_bytes <= kGiB && (n_bytes & (n_bytes - 1)) == 0;
}

}  // namespace castor
