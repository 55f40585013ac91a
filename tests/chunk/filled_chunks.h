// SPDX-License-Identifier: Apache-2.0
// Three small tiers and chunks that are filled with one byte each.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "../support/tiers.h"

namespace castor {

constexpr std::uint64_t kBytes = 8192;

class FilledChunks : public ::testing::Test {
 protected:
  /// A chunk of `n_bytes` whose only copy is on the host.
  ChunkId add(int fill, std::uint64_t n_bytes = kBytes) {
    const ChunkId id = tiers_.chunks.add(ChunkKind::payload, n_bytes, "chunk " + std::to_string(fill));
    std::memset(tiers_.chunks.open(id, Tier::host).value().data, fill, n_bytes);
    tiers_.chunks.written(id, Tier::host);
    return id;
  }

  /// Fetches the chunk to `tier` and looks at its bytes there.
  bool holds(ChunkId id, Tier tier, int fill) {
    tiers_.chunks.fetch(id, tier).value().wait().value();
    const Chunk& chunk = tiers_.chunks.chunk(id);
    const std::byte* data = chunk.at(tier).buffer.data();
    return std::all_of(data, data + chunk.n_bytes, [fill](std::byte b) { return b == static_cast<std::byte>(fill); });
  }

  Tiers tiers_;
};

}  // namespace castor
