// SPDX-License-Identifier: Apache-2.0
#include "manifest_check.h"

#include <algorithm>
#include <limits>
#include <set>

#include <castor/memory/bytes.h>

#include "store_format.h"
#include "stripes/stripe_layout.h"

namespace castor {
namespace {

using Defect = std::optional<std::string>;

constexpr std::uint64_t kGrainBytes = ExtentAllocator::kGrainBytes;
constexpr std::uint64_t kMaxFileBytes = std::numeric_limits<std::int64_t>::max() / kGrainBytes * kGrainBytes;
constexpr std::size_t kMaxNameBytes = 255;

std::string text(std::uint64_t n) { return std::to_string(n); }

std::string key_text(const ManifestValue& value) { return "key " + text(value.key); }

std::string extent_text(const Extent& extent) {
  return text(extent.n_bytes) + " bytes at offset " + text(extent.offset_bytes);
}

Defect block_defect(std::uint64_t block_bytes) {
  if (is_store_block_size(block_bytes)) return {};
  return "its blocks are of " + text(block_bytes) + " bytes, which is no power of two from 4096 to 1073741824";
}

const char* name_fault(const std::string& name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxNameBytes) return "is longer than 255 bytes";
  if (name == "." || name == "..") return "is that of a folder";
  if (name.find('/') != std::string::npos) return "has a slash";
  if (name.find('\0') != std::string::npos) return "has a zero byte";
  return nullptr;
}

Defect volume_defect(std::size_t i, const ManifestVolume& volume) {
  const auto which = "volume " + text(i);
  if (const char* fault = name_fault(volume.file_name)) return "the file name of its " + which + " " + fault;
  if (volume.end_bytes % kGrainBytes == 0 && volume.end_bytes <= kMaxFileBytes) return {};
  return "its " + which + " ends at " + text(volume.end_bytes) + ", which is no multiple of 4096 up to " +
         text(kMaxFileBytes);
}

Defect volumes_defect(const std::vector<ManifestVolume>& volumes) {
  if (volumes.empty()) return "it names no volume";
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    if (auto defect = volume_defect(i, volumes[i])) return defect;
    if (!ids.insert(volumes[i].id).second) return "two of its volumes have the id " + text(volumes[i].id);
  }
  return {};
}

Defect keys_defect(const std::vector<ManifestValue>& values) {
  const auto wrong = std::adjacent_find(values.begin(), values.end(),
                                        [](const auto& left, const auto& right) { return left.key >= right.key; });
  if (wrong == values.end()) return {};
  return "its " + key_text(wrong[1]) + " comes after " + key_text(wrong[0]);
}

Defect extent_defect(const ManifestValue& value, std::size_t i, std::uint64_t end_bytes) {
  const Extent& extent = value.extents[i];
  const bool whole = extent.offset_bytes % kGrainBytes == 0 && extent.n_bytes % kGrainBytes == 0;
  const bool inside = extent.offset_bytes <= end_bytes && extent.n_bytes <= end_bytes - extent.offset_bytes;
  if (whole && inside) return {};
  return key_text(value) + " has " + extent_text(extent) + " of volume " + text(i) + ", which " +
         (whole ? "ends at " + text(end_bytes) : "are no multiples of 4096");
}

/// Checks the extents' lengths against the value's units. Requires: the extents are inside their volumes.
Defect room_defect(const ManifestValue& value, std::uint64_t block_bytes) {
  const auto needed_bytes = value_room_bytes(value.n_bytes);
  std::uint64_t held_bytes = 0;
  std::size_t n_cut = 0;
  for (const auto& extent : value.extents) {
    if (extent.n_bytes > needed_bytes - held_bytes)
      return key_text(value) + " has more than the " + text(needed_bytes) + " bytes that its " + text(value.n_bytes) +
             " need";
    held_bytes += extent.n_bytes;
    if (extent.n_bytes % block_bytes != 0) ++n_cut;
  }
  if (held_bytes != needed_bytes)
    return key_text(value) + " has " + text(held_bytes) + " of the " + text(needed_bytes) + " bytes that its " +
           text(value.n_bytes) + " need";
  if (n_cut > 1)
    return key_text(value) + " has a part of a block of " + text(block_bytes) + " bytes in " + text(n_cut) +
           " volumes, where one may";
  return {};
}

Defect checksums_defect(const ManifestValue& value, const Manifest& manifest) {
  const auto wanted = manifest.checksums ? n_value_blocks(value.n_bytes, manifest.block_bytes) : 0;
  if (value.checksums.size() == wanted) return {};
  const char* what = manifest.checksums ? " checksums, its " : " checksums in a store without them, its ";
  return key_text(value) + " has " + text(value.checksums.size()) + what + text(value.n_bytes) + " bytes have " +
         text(wanted);
}

Defect value_defect(const ManifestValue& value, const Manifest& manifest) {
  if (value.extents.size() != manifest.volumes.size())
    return key_text(value) + " has " + text(value.extents.size()) + " extents for " + text(manifest.volumes.size()) +
           " volumes";
  if (value.n_bytes > kMaxFileBytes)
    return key_text(value) + " has " + text(value.n_bytes) + " bytes, more than the " + text(kMaxFileBytes) +
           " that a store can hold";
  for (std::size_t i = 0; i < value.extents.size(); ++i) {
    if (auto defect = extent_defect(value, i, manifest.volumes[i].end_bytes)) return defect;
  }
  if (auto defect = room_defect(value, manifest.block_bytes)) return defect;
  return checksums_defect(value, manifest);
}

/// Requires: every value has an extent, or an empty one, in volume `i`.
Defect overlap_defect(const std::vector<ManifestValue>& values, std::size_t i) {
  std::vector<const ManifestValue*> held;
  for (const auto& value : values) {
    if (value.extents[i].n_bytes > 0) held.push_back(&value);
  }
  const auto offset = [i](const ManifestValue* value) { return value->extents[i].offset_bytes; };
  std::sort(held.begin(), held.end(), [&](auto* left, auto* right) { return offset(left) < offset(right); });
  const auto wrong = std::adjacent_find(held.begin(), held.end(), [&](auto* left, auto* right) {
    return offset(right) - offset(left) < left->extents[i].n_bytes;
  });
  if (wrong == held.end()) return {};
  return key_text(*wrong[0]) + " and " + key_text(*wrong[1]) + " overlap in volume " + text(i) + ": " +
         extent_text(wrong[0]->extents[i]) + " and " + extent_text(wrong[1]->extents[i]);
}

}  // namespace

std::optional<std::string> manifest_defect(const Manifest& manifest) {
  if (auto defect = block_defect(manifest.block_bytes)) return defect;
  if (auto defect = volumes_defect(manifest.volumes)) return defect;
  if (auto defect = keys_defect(manifest.values)) return defect;
  for (const auto& value : manifest.values) {
    if (auto defect = value_defect(value, manifest)) return defect;
  }
  for (std::size_t i = 0; i < manifest.volumes.size(); ++i) {
    if (auto defect = overlap_defect(manifest.values, i)) return defect;
  }
  return {};
}

}  // namespace castor
