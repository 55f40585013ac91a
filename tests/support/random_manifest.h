// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "store/manifest.h"

namespace castor::test {

/// Well-formed manifests, small ones, the same for the same seed: up to 3 volumes and 12 values of 0 to 5 blocks,
/// placed in another order than their keys, with gaps between them.
class RandomManifest {
 public:
  static Manifest make(std::uint64_t seed) { return RandomManifest(seed).make(); }

 private:
  explicit RandomManifest(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  Manifest make() {
    Manifest manifest;
    manifest.step = random_();
    manifest.store_id = random_();
    manifest.block_bytes = std::uint64_t{4096} << below(9);
    manifest.checksums = below(2) == 1;
    const auto n_volumes = 1 + below(3);
    for (std::uint64_t i = 0; i < n_volumes; ++i)
      manifest.volumes.push_back({"data-" + std::to_string(below(1000)), random_(), 4096 * below(3)});
    manifest.values.resize(below(13));
    for (std::uint64_t key = below(3); auto& value : manifest.values) {
      value = make_value(key, manifest);
      key += 1 + below(5);
    }
    place(manifest);
    return manifest;
  }

  ManifestValue make_value(std::uint64_t key, const Manifest& manifest) {
    ManifestValue value{key, below(5 * manifest.block_bytes), std::vector<Extent>(manifest.volumes.size()), {}};
    if (below(4) == 0) value.n_bytes = below(3) * manifest.block_bytes;
    if (below(4) == 0) value.n_bytes = below(4097);
    deal_units(value, manifest);
    if (manifest.checksums) add_checksums(value, manifest.block_bytes);
    return value;
  }

  /// Gives each unit to any volume.
  void deal_units(ManifestValue& value, const Manifest& manifest) {
    auto left_bytes = value.n_bytes;
    do {
      const auto unit_bytes = std::min(left_bytes, manifest.block_bytes);
      auto n_pages = unit_bytes / 4096 + (unit_bytes % 4096 == 0 ? 0 : 1);
      if (value.n_bytes == 0) n_pages = 1;
      value.extents[below(value.extents.size())].n_bytes += 4096 * n_pages;
      left_bytes -= unit_bytes;
    } while (left_bytes > 0);
  }

  void add_checksums(ManifestValue& value, std::uint64_t block_bytes) {
    for (auto left_bytes = value.n_bytes; left_bytes > 0;) {
      std::uint64_t part_bytes = left_bytes;
      if (left_bytes >= 4096) part_bytes = left_bytes - left_bytes % 4096;
      left_bytes -= std::min(part_bytes, block_bytes);
      value.checksums.push_back(random_());
    }
  }

  void place(Manifest& manifest) {
    std::vector<ManifestValue*> order;
    for (auto& value : manifest.values) order.push_back(&value);
    std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t i = 0; i < manifest.volumes.size(); ++i) {
      auto& end_bytes = manifest.volumes[i].end_bytes;
      for (auto* value : order) {
        if (value->extents[i].n_bytes == 0) continue;
        value->extents[i].offset_bytes = end_bytes;
        end_bytes += value->extents[i].n_bytes + 4096 * below(2);
      }
    }
  }

  std::mt19937_64 random_;
};

}  // namespace castor::test
