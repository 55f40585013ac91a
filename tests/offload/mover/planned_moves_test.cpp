// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/planned_moves.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>

#include "../../support/tiers.h"

namespace castor {
namespace {

constexpr std::uint64_t kMovedBytes = 4096;

/// Two chunks and the fetches of a plan.
struct PlannedWorld {
  PlannedWorld(std::uint64_t n_device, std::uint64_t n_host) : tiers(n_device * kMovedBytes, n_host * kMovedBytes) {
    for (const ChunkId id : {first, second})
      EXPECT_EQ(tiers.chunks.add(ChunkKind::payload, kMovedBytes, "chunk " + std::to_string(number(id))), id);
    planned.follow(IndexedVector<ChunkId, Places>(2, kAnywhere));
  }

  void fill_on_host(ChunkId id) {
    std::memset(tiers.chunks.open(id, Tier::host).value().data, 1, kMovedBytes);
    tiers.chunks.written(id, Tier::host);
  }

  /// Leaves the contents of `id` below the host alone.
  void sink(ChunkId id) {
    fill_on_host(id);
    tiers.chunks.release(id, Tier::host).value();
    (void)tiers.chunks.reap(Tier::host).value();
  }

  /// Adds a fetch to `to`, and starts what can start.
  void order(ChunkId id, Places from, Places to) {
    PlannedMove move;
    move.chunk = id;
    move.from = from;
    move.to = to;
    planned.add({.leaving = {}, .used = {}, .fetches = std::span(&move, 1)});
  }

  static constexpr ChunkId first{0}, second{1};
  Tiers tiers;
  PlannedMoves planned{tiers.chunks};
};

// The second chunk is on the host, so the first has no room there on its way to the device.
TEST(PlannedMoves, AFetchThatTheHostHoldsUpDoesNotHoldUpOneThatNeedsNoRoomThere) {
  PlannedWorld world(2, 1);
  world.sink(world.first);
  world.fill_on_host(world.second);
  world.order(world.first, only(Tier::nvme), only(Tier::device) | only(Tier::nvme));
  world.order(world.second, only(Tier::host), only(Tier::device) | only(Tier::host));
  ASSERT_TRUE(world.planned.start_fetches().ok());
  EXPECT_TRUE(world.tiers.chunks.chunk(world.second).resident(Tier::device));
  EXPECT_FALSE(world.tiers.chunks.chunk(world.first).resident(Tier::device));
  EXPECT_FALSE(world.tiers.chunks.chunk(world.first).resident(Tier::host));
}

TEST(PlannedMoves, AFetchThatTheDeviceHoldsUpHoldsUpThoseBehindIt) {
  PlannedWorld world(0, 2);
  for (const ChunkId id : {world.first, world.second}) {
    world.fill_on_host(id);
    world.order(id, only(Tier::host), only(Tier::device) | only(Tier::host));
  }
  ASSERT_TRUE(world.planned.start_fetches().ok());
  for (const ChunkId id : {world.first, world.second})
    EXPECT_FALSE(world.tiers.chunks.chunk(id).resident(Tier::device));
}

TEST(PlannedMoves, AFetchKeepsACopyThatIsJustLeaving) {
  PlannedWorld world(1, 1);
  world.tiers.spill.hold_writes = true;
  world.fill_on_host(world.first);
  world.tiers.chunks.release(world.first, Tier::host).value();
  ASSERT_TRUE(world.tiers.chunks.chunk(world.first).at(Tier::host).leaving);
  world.order(world.first, only(Tier::nvme), only(Tier::host) | only(Tier::nvme));
  ASSERT_TRUE(world.planned.start_fetches().ok());
  EXPECT_TRUE(world.tiers.chunks.chunk(world.first).resident(Tier::host));
  world.tiers.spill.finish_writes();
  EXPECT_EQ(world.tiers.chunks.reap(Tier::host).value(), 0u);
  ASSERT_TRUE(world.planned.start_fetches().ok());
  EXPECT_TRUE(world.tiers.chunks.chunk(world.first).resident(Tier::host));
  EXPECT_EQ(world.tiers.spill.n_reads, 0);
}

}  // namespace
}  // namespace castor
