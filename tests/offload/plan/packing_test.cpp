// SPDX-License-Identifier: Apache-2.0
#include "moves/packing.h"

#include <gtest/gtest.h>

namespace castor {
namespace {

constexpr std::uint32_t kNMoments = 3;
constexpr std::uint64_t kNSmall = 40, kLargeBytes = 10;

/// Large chunks that stay on the host without cost, and on the device for a copy in each direction; small chunks that
/// fill the host and may be on no other tier. The first order inserts the large ones first.
MoveProblem crowded_host() {
  MoveProblem problem;
  problem.n_moments = kNMoments;
  problem.costs = {1, 1, 1, 1, 0};
  for (std::uint64_t i = 0; i < kNSmall; ++i)
    problem.chunks.push_back({1, {{1, Tier::host, Access::read}}, only(Tier::host)});
  for (std::uint64_t i = 0; i < kNSmall / kLargeBytes; ++i)
    problem.chunks.push_back({kLargeBytes, {{1, Tier::host, Access::update}}});
  problem.room_bytes[index(Tier::device)].assign(kNMoments, 2 * kNSmall);
  problem.room_bytes[index(Tier::host)].assign(kNMoments, 2 * kNSmall);
  problem.room_bytes[index(Tier::host)][0] = kNSmall;
  problem.room_bytes[index(Tier::host)][2] = kNSmall;
  return problem;
}

TEST(Packing, ManyChunksThatFindNoRoomComeFirstNextTime) {
  const MoveProblem problem = crowded_host();
  const MoveModel model(problem);
  Packing packing(model);
  packing.build(Prices(kNMoments));
  EXPECT_TRUE(packing.best().found());
}

}  // namespace
}  // namespace castor
