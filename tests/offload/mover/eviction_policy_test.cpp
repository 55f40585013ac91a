// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/access_trace.h>
#include "eviction_policy.h"

#include <gtest/gtest.h>

#include <array>

namespace castor {
namespace {

constexpr auto kNever = AccessTrace::kNever;

TEST(FarthestNextUse, TakesTheChunkNeededLast) {
  const std::array<EvictionCandidate, 3> c = {{
      {.chunk = ChunkId{0}, .next_use = 4, .last_use = 9, .clean = true},
      {.chunk = ChunkId{1}, .next_use = 20, .last_use = 1},
      {.chunk = ChunkId{2}, .next_use = 7, .last_use = 5, .clean = true}}};
  EXPECT_EQ(farthest_next_use(c), 1u);
}

TEST(FarthestNextUse, NeverIsFartherThanAnything) {
  const std::array<EvictionCandidate, 2> c = {{
      {.chunk = ChunkId{0}, .next_use = 1000000, .last_use = 0, .clean = true},
      {.chunk = ChunkId{1}, .next_use = kNever, .last_use = 9}}};
  EXPECT_EQ(farthest_next_use(c), 1u);
}

TEST(FarthestNextUse, AmongEqualsTheCleanOneGoes) {
  const std::array<EvictionCandidate, 2> c = {{
      {.chunk = ChunkId{0}, .next_use = 6, .last_use = 1},
      {.chunk = ChunkId{1}, .next_use = 6, .last_use = 9, .clean = true}}};
  EXPECT_EQ(farthest_next_use(c), 1u);
}

TEST(FarthestNextUse, WhatIsPendingGoesLastAndInItsOrder) {
  const std::array<EvictionCandidate, 3> c = {{
      {.chunk = ChunkId{0}, .next_use = 90, .last_use = 7, .unwanted = true, .pending = true},
      {.chunk = ChunkId{1}, .next_use = 20, .last_use = 5, .unwanted = true, .pending = true},
      {.chunk = ChunkId{2}, .next_use = 3, .last_use = 8, .unwanted = true}}};
  EXPECT_EQ(farthest_next_use(c), 2u);
  EXPECT_EQ(farthest_next_use(std::span(c).first(2)), 1u);
}

TEST(ByRecency, TakesTheChunkUsedLongestAgo) {
  const std::array<EvictionCandidate, 3> c = {{
      {.chunk = ChunkId{0}, .next_use = kNever, .last_use = 4, .clean = true},
      {.chunk = ChunkId{1}, .next_use = kNever, .last_use = 2},
      {.chunk = ChunkId{2}, .next_use = kNever, .last_use = 3, .clean = true}}};
  EXPECT_EQ(by_recency(c), 1u);
}

TEST(ByRecency, OfThoseUsedOnceAnIterationTheLastGoesBeforeAllOthers) {
  std::array<EvictionCandidate, 3> c = {{
      {.chunk = ChunkId{0}, .next_use = kNever, .last_use = 4},
      {.chunk = ChunkId{1}, .next_use = kNever, .last_use = 6},
      {.chunk = ChunkId{2}, .next_use = kNever, .last_use = 1}}};
  c[0].once = c[1].once = true;
  EXPECT_EQ(by_recency(c), 1u);
  c[1].pending = true;
  EXPECT_EQ(by_recency(c), 0u);
}

TEST(ByRecency, WhatShallBeElsewhereGoesFirst) {
  std::array<EvictionCandidate, 2> c = {{
      {.chunk = ChunkId{0}, .next_use = kNever, .last_use = 4},
      {.chunk = ChunkId{1}, .next_use = kNever, .last_use = 6}}};
  c[1].unwanted = true;
  EXPECT_EQ(by_recency(c), 1u);
}

}  // namespace
}  // namespace castor
