// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/access_trace.h>
#include "eviction_policy.h"

#include <gtest/gtest.h>

#include <array>

namespace castor {
namespace {

constexpr auto kNever = AccessTrace::kNever;

TEST(FarthestNextUse, TakesTheChunkNeededLast) {
  const std::array<EvictionCandidate, 3> c = {
      {{ChunkId{0}, 4, 9, 1, true}, {ChunkId{1}, 20, 1, 1, false}, {ChunkId{2}, 7, 5, 1, true}}};
  EXPECT_EQ(make_farthest_next_use()->choose(c), 1u);
}

TEST(FarthestNextUse, NeverIsFartherThanAnything) {
  const std::array<EvictionCandidate, 2> c = {{{ChunkId{0}, 1000000, 0, 1, true}, {ChunkId{1}, kNever, 9, 1, false}}};
  EXPECT_EQ(make_farthest_next_use()->choose(c), 1u);
}

TEST(FarthestNextUse, AmongEqualsTheCleanOneGoes) {
  const std::array<EvictionCandidate, 2> c = {{{ChunkId{0}, 6, 1, 1, false}, {ChunkId{1}, 6, 9, 1, true}}};
  EXPECT_EQ(make_farthest_next_use()->choose(c), 1u);
}

TEST(FarthestNextUse, WhatIsPendingGoesLastAndInItsOrder) {
  const std::array<EvictionCandidate, 3> c = {{{ChunkId{0}, 90, 7, 1, false, true, true},
                                               {ChunkId{1}, 20, 5, 1, false, true, true},
                                               {ChunkId{2}, 3, 8, 1, false, true, false}}};
  EXPECT_EQ(make_farthest_next_use()->choose(c), 2u);
  EXPECT_EQ(make_farthest_next_use()->choose(std::span(c).first(2)), 1u);
}

TEST(ByRecency, TakesTheChunkUsedLongestAgo) {
  const std::array<EvictionCandidate, 3> c = {
      {{ChunkId{0}, kNever, 4, 1, true}, {ChunkId{1}, kNever, 2, 1, false}, {ChunkId{2}, kNever, 3, 1, true}}};
  EXPECT_EQ(make_by_recency()->choose(c), 1u);
}

TEST(ByRecency, OfThoseUsedOnceAnIterationTheLastGoesBeforeAllOthers) {
  std::array<EvictionCandidate, 3> c = {
      {{ChunkId{0}, kNever, 4, 1}, {ChunkId{1}, kNever, 6, 1}, {ChunkId{2}, kNever, 1, 1}}};
  c[0].once = c[1].once = true;
  EXPECT_EQ(make_by_recency()->choose(c), 1u);
  c[1].pending = true;
  EXPECT_EQ(make_by_recency()->choose(c), 0u);
}

TEST(ByRecency, WhatShallBeElsewhereGoesFirst) {
  std::array<EvictionCandidate, 2> c = {{{ChunkId{0}, kNever, 4, 1}, {ChunkId{1}, kNever, 6, 1}}};
  c[1].unwanted = true;
  EXPECT_EQ(make_by_recency()->choose(c), 1u);
}

}  // namespace
}  // namespace castor
