// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/stateful_tensor_mgr.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include "../../support/deferred_device.h"
#include "../../support/refusing_device.h"
#include "../../support/seeds.h"
#include "../../support/scheduled_mover.h"

namespace castor {
namespace {

constexpr std::uint64_t kChunkBytes = 4096;

/// Tiers that hold given numbers of chunks, a mover over them, and a plain vector of the expected contents of each
/// chunk.
struct World {
  World(std::uint64_t n_device, std::uint64_t n_host, bool with_spill = true,
        std::unique_ptr<Device> device = make_cpu_device())
      : tiers(n_device * kChunkBytes, n_host * kChunkBytes, with_spill, std::move(device)),
        mover(mover_parts(tiers)),
        scheduler(scheduler_parts(mover, tiers)) {}

  Result<void> add(std::uint8_t value, ChunkKind kind = ChunkKind::payload) {
    const ChunkId id = tiers.chunks.add(kind, kChunkBytes, "chunk " + std::to_string(expected.size()));
    CASTOR_ASSIGN(const BufferView view, mover.open(id, Tier::host));
    std::memset(view.data, value, kChunkBytes);
    tiers.chunks.written(id, Tier::host);
    expected.push_back(value);
    return {};
  }

  Result<void> use(Moment moment, ChunkId id, Tier tier, Access access, std::uint8_t value = 0) {
    const std::array needs = {Need{id, tier, access}};
    CASTOR_TRY(scheduler.begin(moment, needs));
    std::byte* data = tiers.chunks.chunk(id).at(tier).buffer.data();
    EXPECT_TRUE(access == Access::overwrite || holds(data, expected[id]))
        << "chunk " << number(id) << " on " << name(tier);
    if (access != Access::read) std::memset(data, expected[id] = value, kChunkBytes);
    scheduler.end(needs);
    return {};
  }

  static bool holds(const std::byte* data, std::uint8_t value) {
    return std::all_of(data, data + kChunkBytes, [value](std::byte b) { return b == static_cast<std::byte>(value); });
  }

  Tiers tiers;
  StatefulTensorMgr mover;
  Scheduler scheduler;
  IndexedVector<ChunkId, std::uint8_t> expected;
};

/// A value that the chunk did not have.
std::uint8_t other_value(ChunkId id, std::uint32_t from) { return static_cast<std::uint8_t>(from + number(id)); }

void fill(World& world, int n) {
  for (int i = 0; i < n; ++i) world.add(static_cast<std::uint8_t>(i + 1)).value();
}

TEST(StatefulTensorMgr, EvictsThroughAllTiersAndLosesNothing) {
  World world(1, 1);
  fill(world, 5);
  for (const ChunkId id : ids<ChunkId>(5))
    world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
  EXPECT_LE(world.tiers.device_budget.peak_bytes(), kChunkBytes);
  EXPECT_LE(world.tiers.host_budget.peak_bytes(), kChunkBytes);
}

TEST(StatefulTensorMgr, ChangesOnTheDeviceSurviveEvictionToTheBottom) {
  World world(1, 1);
  fill(world, 3);
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::update, 77).value();
  world.use({MomentKind::forward, 1}, ChunkId{1}, Tier::device, Access::read).value();
  world.use({MomentKind::forward, 2}, ChunkId{2}, Tier::device, Access::read).value();
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::read).value();
}

// Five chunks, two on the device, one of them changed there, one more on the host, the others below.
TEST(StatefulTensorMgr, WritesBackWhatIsNotBelowYetAndLeavesTheCopiesAbove) {
  World world(2, 2);
  fill(world, 5);
  for (const ChunkId id : ids<ChunkId>(5))
    world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
  world.use({MomentKind::forward, 4}, ChunkId{4}, Tier::device, Access::update, 77).value();
  ASSERT_TRUE(world.tiers.chunks.drain().ok());
  const auto all_ids = ids<ChunkId>(5);
  const std::vector<ChunkId> all(all_ids.begin(), all_ids.end());
  std::uint64_t n_missing = 0;
  for (const ChunkId id : all) n_missing += !world.tiers.chunks.chunk(id).resident(Tier::nvme);
  const std::uint64_t before_bytes = world.tiers.chunks.moved().nvme_write;
  ASSERT_GT(n_missing, 0u);
  ASSERT_LT(n_missing, 5u);
  ASSERT_TRUE(world.mover.write_back(all).ok());
  EXPECT_EQ(world.tiers.chunks.moved().nvme_write - before_bytes, n_missing * kChunkBytes);
  for (const ChunkId id : all)
    EXPECT_TRUE(World::holds(world.tiers.spill.contents.at(id).data(), world.expected[id])) << "chunk " << number(id);
  EXPECT_TRUE(world.tiers.chunks.chunk(ChunkId{4}).resident(Tier::device));
  EXPECT_FALSE(world.tiers.chunks.chunk(ChunkId{4}).resident(Tier::host)) << "it came down for the write alone";
  ASSERT_TRUE(world.mover.write_back(all).ok());
  EXPECT_EQ(world.tiers.chunks.moved().nvme_write - before_bytes, n_missing * kChunkBytes)
      << "there is nothing new to write";
}

TEST(StatefulTensorMgr, WritesThatFailLeaveEverythingWhereItWas) {
  for (int nth = 1; nth <= 3; ++nth) {
    World world(4, 4);
    fill(world, 3);
    world.tiers.spill.fail_write = nth;
    const auto all_ids = ids<ChunkId>(3);
    const std::vector<ChunkId> all(all_ids.begin(), all_ids.end());
    EXPECT_EQ(world.mover.write_back(all).error().kind, ErrorKind::io);
    for (const ChunkId id : ids<ChunkId>(3))
      world.use({MomentKind::forward, number(id)}, id, Tier::host, Access::update, 50).value();
    EXPECT_TRUE(world.mover.write_back(all).ok());
  }
}

TEST(StatefulTensorMgr, SaysWhatAFullTierNeeds) {
  World world(1, 4);
  fill(world, 2);
  const std::array both = {Need{ChunkId{0}, Tier::device, Access::read}, Need{ChunkId{1}, Tier::device, Access::read}};
  const auto refused = world.scheduler.begin({MomentKind::forward, 0}, both);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("raise `device_budget` to 8.00 KiB"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(world.tiers.chunks.chunk(ChunkId{0}).at(Tier::device).n_pins, 0u) << "a failed begin leaves nothing pinned";
}

TEST(StatefulTensorMgr, AMomentThatCouldNotBeginHoldsNoMemory) {
  World world(2, 4);
  fill(world, 3);
  const std::array needs = {Need{ChunkId{0}, Tier::device, Access::overwrite},
                            Need{ChunkId{1}, Tier::device, Access::read}, Need{ChunkId{2}, Tier::device, Access::read}};
  ASSERT_FALSE(world.scheduler.begin({MomentKind::forward, 0}, needs).ok());
  const std::array fits = {Need{ChunkId{1}, Tier::device, Access::read}, Need{ChunkId{2}, Tier::device, Access::read}};
  EXPECT_TRUE(world.scheduler.begin({MomentKind::forward, 1}, fits).ok())
      << "what the first began to overwrite is in the way";
}

// One chunk fits on the device and one on the host. To bring chunk 0 up, chunk 0 first gives its place on the host to
// chunk 1, which the device has changed; then chunk 1 has to be written below so that chunk 0 can come back.
TEST(StatefulTensorMgr, AFetchThatFailsHalfWayHoldsNoMemory) {
  World world(1, 1);
  fill(world, 3);
  world.use({MomentKind::forward, 0}, ChunkId{1}, Tier::device, Access::update, 77).value();
  (void)world.mover.look(ChunkId{0}, Tier::host).value();
  ASSERT_TRUE(world.tiers.chunks.chunk(ChunkId{0}).resident(Tier::nvme)) << "its place on the host costs no write";
  world.tiers.spill.fail_write = world.tiers.spill.n_writes + 1;
  const auto failed = world.mover.look(ChunkId{0}, Tier::device);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  for (const ChunkId id : ids<ChunkId>(3).backward())
    EXPECT_TRUE(world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).ok()) << number(id);
}

TEST(StatefulTensorMgr, WhereTheBudgetIsNotToBlameTheMessageIsThatOfTheResource) {
  Tiers tiers;
  test::Refusal refusal;  // the machine, say, has less memory than the budget allows
  test::RefusingResource refusing(tiers.limited_host, refusal);
  ChunkManager chunks({.device = tiers.pooled_device,
                       .host = refusing,
                       .spill = nullptr,
                       .compute = *tiers.compute,
                       .up = *tiers.up,
                       .down = *tiers.down,
                       .timeline = tiers.timeline});
  StatefulTensorMgr mover({.chunks = chunks,
                           .device = tiers.device_budget,
                           .host = tiers.host_budget,
                           .compute = *tiers.compute,
                           .timeline = tiers.timeline});
  const auto refused = mover.open(chunks.add(ChunkKind::payload, kChunkBytes, "chunk"), Tier::host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "the machine has no more");
}

TEST(StatefulTensorMgr, WithoutASpillStoreTheMessageNamesNvme) {
  World world(0, 1, false);
  world.add(1).value();
  const auto refused = world.add(2);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("`nvme`"), std::string::npos);
}

TEST(StatefulTensorMgr, ASteadyCycleKeepsTheCachedShareWhereLruWouldKeepNothing) {
  constexpr int kChunks = 6, kRoom = 4;
  World world(kRoom, kChunks);
  fill(world, kChunks);
  const auto cycle = [&] {
    for (const ChunkId id : world.expected.ids())
      world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
    world.scheduler.end_iteration();
  };
  cycle();
  cycle();
  cycle();
  const std::uint64_t before = world.tiers.chunks.moved().h2d;
  for (int i = 0; i < 10; ++i) cycle();
  // Belady on a cycle of n with room for k misses (n-k)/(n-1) of the uses. One place of the four is where the next
  // chunk arrives, so k is 3 and a cycle misses 6 * 3/5 = 3.6 at best. LRU misses all 6.
  EXPECT_LE(world.tiers.chunks.moved().h2d - before, 10 * 4 * kChunkBytes);
}

TEST(StatefulTensorMgr, AFirstSweepOverStatesMissesAsFewAsBelady) {
  constexpr int kChunks = 12, kRoom = 8;
  World world(1, kRoom);
  for (int i = 0; i < kChunks; ++i) world.add(static_cast<std::uint8_t>(i + 1), ChunkKind::state).value();
  const std::uint64_t before = world.tiers.chunks.moved().nvme_read;
  for (const ChunkId id : world.expected.ids())
    world.use({MomentKind::update, number(id)}, id, Tier::host, Access::update, other_value(id, 100)).value();
  // Belady on a cycle of n with room for k misses (n-k)/(n-1) of the uses: 12 * 4/11 = 4.4. LRU misses all 12.
  EXPECT_LE(world.tiers.chunks.moved().nvme_read - before, 5 * kChunkBytes);
}

TEST(StatefulTensorMgr, PrefetchHasTheNextChunkThereBeforeItIsAskedFor) {
  World world(2, 4);
  fill(world, 4);
  for (int round = 0; round < 2; ++round) {
    for (const ChunkId id : ids<ChunkId>(4))
      world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
    world.scheduler.end_iteration();
  }
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::read).value();
  EXPECT_TRUE(world.tiers.chunks.chunk(ChunkId{1}).resident(Tier::device));
}

/// One iteration of `n_uses` uses, the same for the same seed. Each starts when all copies have ended.
void iterate(World& world, std::uint32_t seed, std::uint32_t n_uses) {
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < n_uses; ++i) {
    const auto chunk = id_at<ChunkId>(random() % world.expected.size());
    const Tier tier = random() % 4 == 0 ? Tier::host : Tier::device;
    const Access access = static_cast<Access>(random() % 3);
    world.use({MomentKind::forward, i}, chunk, tier, access, static_cast<std::uint8_t>(random())).value();
    world.tiers.chunks.drain().value();
  }
  world.scheduler.end_iteration();
}

/// Units run forward, and backward unless it is an evaluation.
void pass(World& world, bool backward) {
  const auto all = world.expected.ids();
  for (const ChunkId id : all) world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
  for (const ChunkId id : ids<ChunkId>(backward ? all.size() : 0).backward())
    world.use({MomentKind::backward, number(id)}, id, Tier::device, Access::update, other_value(id, 9)).value();
}

double seconds_of(const LinkBytes& moved) { return sum(seconds_of(moved, kUsualLinkCosts)); }

/// Bytes that the fourth iteration on a random trace moves, and those of its plan.
std::pair<double, double> moved_and_planned(std::uint32_t seed, std::uint64_t n_host) {
  std::mt19937 random(seed);
  World world(2 + seed % 3, n_host);
  fill(world, 2 + static_cast<int>(random() % 7));
  const std::uint32_t way = random();
  const std::uint32_t n_uses = 4 + random() % 16;
  for (int i = 0; i < 3; ++i) iterate(world, way, n_uses);
  EXPECT_NE(plan_of(world.scheduler), nullptr);
  const double before = seconds_of(world.tiers.chunks.moved());
  iterate(world, way, n_uses);
  return {seconds_of(world.tiers.chunks.moved()) - before, plan_of(world.scheduler)->plan.link_seconds};
}

/// Cost of the moves in 60 random traces, as a share of the cost in their plans.
double share_of_plans(const std::function<std::uint64_t(std::uint32_t)>& n_host) {
  double moved = 0, planned = 0;
  for (std::uint32_t seed = 0; seed < test::n_seeds(60); ++seed) {
    const auto of_seed = moved_and_planned(seed, n_host(seed));
    moved += of_seed.first;
    planned += of_seed.second;
  }
  return moved / planned;
}

// The cost can be a little higher, because a copy in flight takes room on both tiers, and a little lower, because room
// that the plan holds free ahead of an arrival is not always needed: 1.00 to 1.01 over all, with measured times, and
// 1.03 where other programs use the processors.
TEST(StatefulTensorMgr, ASteadyIterationMovesWhatItsPlanSays) {
  const double share = share_of_plans([](std::uint32_t) { return 12; });
  EXPECT_LE(share, 1.1);
  EXPECT_GE(share, 0.95);
}

// Where the host is as tight as the device (2 to 5 chunks), copies in flight take needed room: 1.4.
TEST(StatefulTensorMgr, OverThreeTightTiersItMovesMore) {
  EXPECT_LE(share_of_plans([](std::uint32_t seed) { return 2 + seed % 4; }), 1.6);
}

TEST(StatefulTensorMgr, AnotherWayIsPlannedWhenItHasComeTwice) {
  World world(2, 12);
  fill(world, 6);
  iterate(world, 1, 12);
  EXPECT_NE(plan_of(world.scheduler), nullptr);
  iterate(world, 2, 12);
  EXPECT_EQ(plan_of(world.scheduler), nullptr);
  iterate(world, 2, 12);
  EXPECT_NE(plan_of(world.scheduler), nullptr);
  world.scheduler.forget_trace();
  EXPECT_EQ(plan_of(world.scheduler), nullptr);
}

/// Cost of the moves of eight iterations that alternate between two random traces, each recorded before.
double moved_in_turn(std::uint32_t seed, bool told) {
  World world(3, 12);
  fill(world, 8);
  const auto turn = [&](std::uint32_t way) {
    if (told) world.scheduler.select(way == 0 ? IterationKind::plain : IterationKind::speculative);
    iterate(world, 2 * seed + way, 24);
  };
  for (std::uint32_t i = 0; i < 4; ++i) turn(i % 2);
  const double before = seconds_of(world.tiers.chunks.moved());
  for (std::uint32_t i = 0; i < 8; ++i) {
    turn(i % 2);
    EXPECT_EQ(world.scheduler.plan() != nullptr, told);
    EXPECT_EQ(trace_of(world.scheduler).n_moments(), 24u);
  }
  return seconds_of(world.tiers.chunks.moved()) - before;
}

TEST(StatefulTensorMgr, TwoWaysThatAreToldApartAreBothPlanned) {
  double told = 0, not_told = 0;
  for (std::uint32_t seed = 0; seed < test::n_seeds(20); ++seed) {
    told += moved_in_turn(seed, true);
    not_told += moved_in_turn(seed, false);
  }
  EXPECT_LE(told, 0.95 * not_told);
}

TEST(StatefulTensorMgr, AnIterationThatBreaksOffLeavesThePlanAsItIs) {
  World world(2, 12);
  fill(world, 6);
  for (int i = 0; i < 2; ++i) pass(world, true), world.scheduler.end_iteration();
  const StepPlan* const plan = plan_of(world.scheduler);
  ASSERT_NE(plan, nullptr);
  pass(world, true);
  world.use({MomentKind::update, 0}, ChunkId{0}, Tier::host, Access::update, 7).value();  // not an access of the trace
  world.scheduler.break_off();
  EXPECT_EQ(plan_of(world.scheduler), plan);
  EXPECT_EQ(trace_of(world.scheduler).n_moments(), 12u);
  pass(world, true);
  world.scheduler.end_iteration();
  EXPECT_EQ(plan_of(world.scheduler), plan);
}

// Room is ample. Each of 40 chunks is read once, so those that may not rest on the device are fetched once an
// iteration.
TEST(StatefulTensorMgr, WhatMayNotRestOnTheDeviceComesForEachUseAndLeaves) {
  World world(100, 100);
  fill(world, 40);
  for (const ChunkId id : {ChunkId{3}, ChunkId{20}})
    world.mover.planned().set_rest(id, kAnywhere & ~only(Tier::device));
  const auto read_all = [&world] {
    for (const ChunkId id : ids<ChunkId>(40))
      world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
    world.scheduler.end_iteration();
  };
  for (int iteration = 0; iteration < 3; ++iteration) read_all();
  const std::uint64_t before_bytes = world.tiers.chunks.moved().h2d;
  read_all();
  EXPECT_EQ(world.tiers.chunks.moved().h2d - before_bytes, 2 * kChunkBytes);
  EXPECT_FALSE(world.tiers.chunks.chunk(ChunkId{20}).resident(Tier::device));
  EXPECT_TRUE(world.tiers.chunks.chunk(ChunkId{21}).resident(Tier::device));
}

// The chunk is copied down from the device only after the moment that releases it has begun.
TEST(StatefulTensorMgr, WhatCouldNotLeaveAtOnceLeavesAtALaterMoment) {
  World world(100, 100, true, test::make_deferred_device());
  fill(world, 40);
  world.mover.planned().set_rest(ChunkId{0}, only(Tier::nvme));
  const auto use = [&world](ChunkId id) {
    const Access access = id == ChunkId{0} ? Access::update : Access::read;
    world.use({MomentKind::forward, number(id)}, id, Tier::device, access, 50).value();
  };
  for (int iteration = 0; iteration < 3; ++iteration) {
    for (const ChunkId id : ids<ChunkId>(40)) use(id);
    world.scheduler.end_iteration();
  }
  const Chunk& chunk = world.tiers.chunks.chunk(ChunkId{0});
  use(ChunkId{0});
  use(ChunkId{1});
  EXPECT_FALSE(chunk.resident(Tier::nvme)) << "still on its way to the host";
  world.tiers.down->synchronize().value();
  use(ChunkId{2});
  EXPECT_TRUE(chunk.resident(Tier::nvme));
  EXPECT_FALSE(chunk.resident(Tier::host));
}

// The plan sends a chunk down that was changed on the device; the host has room for one, which another needs meanwhile.
TEST(StatefulTensorMgr, WhatIsOnItsWayDownTurnsBackWhereItsRoomIsNeeded) {
  World world(2, 1, false, test::make_deferred_device());
  world.add(1).value();
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::update, 50).value();
  PlannedMoves& planned = world.mover.planned();
  planned.follow({only(Tier::host)});
  const std::array down = {WantedPlaces{ChunkId{0}, only(Tier::host)}};
  planned.add({.leaving = down, .used = {}, .fetches = {}});
  planned.advance();
  const auto chunk = [&world]() -> const Chunk& { return world.tiers.chunks.chunk(ChunkId{0}); };
  ASSERT_TRUE(chunk().resident(Tier::host) && !chunk().at(Tier::host).arrived.ready());
  ASSERT_FALSE(chunk().resident(Tier::device)) << "it is leaving";
  ASSERT_TRUE(world.add(2).ok());
  EXPECT_TRUE(chunk().resident(Tier::device));
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::read).value();
  world.use({MomentKind::update, 1}, ChunkId{1}, Tier::host, Access::read).value();
}

// Its bytes have not arrived on the host yet.
TEST(StatefulTensorMgr, WhatMayBeOnTheDeviceGoesThereWhereItsRoomOnTheHostIsNeeded) {
  const std::array<std::pair<std::uint64_t, Places>, 4> cases = {
      {{0, kAnywhere}, {1, kAnywhere}, {0, only(Tier::device)}, {1, only(Tier::device)}}};
  for (const auto& [n_device, rest] : cases) {
    World world(n_device, 1, false, test::make_deferred_device());
    const ChunkId id = world.tiers.chunks.add(ChunkKind::gradient, kChunkBytes, "gradient");
    world.expected.push_back(9);
    const std::vector<std::uint8_t> source(kChunkBytes, 9);
    const BufferView view = world.mover.open(id, Tier::host).value();
    world.mover.arriving(id, Tier::host, kChunkBytes, world.tiers.down->copy(view.data, source.data(), kChunkBytes));
    const ChunkId other = world.tiers.chunks.add(ChunkKind::payload, kChunkBytes, "weights");
    world.mover.planned().set_rest(id, rest);
    const auto opened = world.mover.open(other, Tier::host);
    EXPECT_EQ(opened.ok(), n_device == 1);
    const Tier tier = n_device == 1 ? Tier::device : Tier::host;
    world.use({MomentKind::update, 0}, id, tier, Access::read).value();
    if (n_device == 0) {
      EXPECT_EQ(opened.error().shortage->tier, Tier::host) << opened.error().message;
    }
  }
}

// The device has room for none, and another chunk on the host can be dropped.
TEST(StatefulTensorMgr, WhatBelongsOnTheDeviceStaysWhereACleanCopyCanGo) {
  World world(1, 2, false);
  fill(world, 2);
  world.use({MomentKind::forward, 1}, ChunkId{1}, Tier::device, Access::read).value();
  world.mover.planned().set_rest(ChunkId{0}, only(Tier::device));
  EXPECT_TRUE(world.add(3).ok());
}

// Two chunks come down from the device for one that takes the room of both; the host has room for one, where another
// chunk lies that belongs on the device.
TEST(StatefulTensorMgr, NothingGoesUpWhileRoomIsMadeOnTheDevice) {
  Tiers tiers(3 * kChunkBytes, kChunkBytes, false, make_cpu_device());
  StatefulTensorMgr mover(mover_parts(tiers));
  const auto add = [&](std::uint64_t n_bytes, Tier tier) {
    const ChunkId id = tiers.chunks.add(ChunkKind::payload, n_bytes, "chunk");
    (void)mover.open(id, tier).value();
    tiers.chunks.written(id, tier);
    mover.planned().set_rest(id, only(Tier::device));
    return id;
  };
  for (const Tier tier : {Tier::device, Tier::device, Tier::host}) (void)add(kChunkBytes, tier);
  const ChunkId large = tiers.chunks.add(ChunkKind::payload, 2 * kChunkBytes, "large");
  const auto opened = mover.open(large, Tier::device);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::does_not_fit) << opened.error().message;
}

/// Of six chunks; the plan of those after them.
const StepPlan* two_iterations(World& world) {
  fill(world, 6);
  for (int step = 0; step < 2; ++step) {
    pass(world, true);
    world.scheduler.end_iteration();
  }
  return plan_of(world.scheduler);
}

TEST(StatefulTensorMgr, EvaluationBetweenTwoStepsLeavesThePlanAsItIs) {
  World world(2, 12);
  const StepPlan* const plan = two_iterations(world);
  ASSERT_NE(plan, nullptr);
  for (int batch = 0; batch < 3; ++batch) pass(world, false);
  pass(world, true);
  world.scheduler.end_iteration();
  EXPECT_EQ(plan_of(world.scheduler), plan);
  EXPECT_EQ(trace_of(world.scheduler).n_moments(), 12u);
}

/// Of all chunks, in the middle of an iteration: the next ones repeat those before it all the same.
TEST(StatefulTensorMgr, ReadingAsideWithinAStepLeavesThePlanAsItIs) {
  for (const bool aside : {true, false}) {
    World world(2, 12);
    const StepPlan* const plan = two_iterations(world);
    ASSERT_NE(plan, nullptr);
    pass(world, false);
    {
      std::optional<StatefulTensorMgr::Aside> scope;
      if (aside) scope.emplace(world.mover);
      for (const ChunkId id : ids<ChunkId>(6)) {
        world.mover.hold(id, Tier::host).value();
        world.mover.unhold(id, Tier::host);
      }
    }
    for (const ChunkId id : ids<ChunkId>(6).backward())
      world.use({MomentKind::backward, number(id)}, id, Tier::device, Access::update, other_value(id, 9)).value();
    world.scheduler.end_iteration();
    EXPECT_EQ(plan_of(world.scheduler) == plan, aside);
  }
}

// The first pass makes the updates that wait for it; the ones after it find them made.
TEST(StatefulTensorMgr, EvaluationThatMakesTheUpdatesLeavesThePlanAsItIs) {
  World world(3, 12);
  fill(world, 6);
  const auto update = [&world](ChunkId id, bool pending) {
    if (pending) world.use({MomentKind::update, number(id)}, id, Tier::device, Access::update).value();
  };
  const auto forward = [&](bool pending) {
    for (const ChunkId id : ids<ChunkId>(6)) {
      if (number(id) % 2 == 0) update(id, pending);
      world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
    }
  };
  const auto train = [&](bool pending) {
    forward(pending);
    for (const ChunkId id : ids<ChunkId>(6).backward())
      world.use({MomentKind::backward, number(id)}, id, Tier::device, Access::read).value();
    world.scheduler.end_iteration();
  };
  for (int step = 0; step < 2; ++step) train(true);
  const StepPlan* const plan = plan_of(world.scheduler);
  ASSERT_NE(plan, nullptr);
  for (int batch = 0; batch < 3; ++batch) forward(batch == 0);
  train(false);
  EXPECT_EQ(plan_of(world.scheduler), plan);
  EXPECT_EQ(trace_of(world.scheduler).n_moments(), 15u);
  train(true);
  EXPECT_EQ(plan_of(world.scheduler), plan);
  for (int step = 0; step < 2; ++step) train(false);
  EXPECT_EQ(trace_of(world.scheduler).n_moments(), 12u)
      << "with no evaluation before it, a step without them goes another way";
}

// Updates of chunk 0 wait for its next use, those of the others are made at the end.
TEST(StatefulTensorMgr, AStepThatIsSkippedLeavesThePlanAsItIs) {
  World world(3, 12);
  fill(world, 4);
  const auto train = [&](bool pending, bool skipped) {
    if (pending) world.use({MomentKind::update, 0}, ChunkId{0}, Tier::device, Access::update).value();
    for (const ChunkId id : ids<ChunkId>(4))
      world.use({MomentKind::forward, number(id)}, id, Tier::device, Access::read).value();
    world.scheduler.join({MomentKind::norm, 0}).value();
    for (const ChunkId id : IdRange(ChunkId{1}, skipped ? 0 : 3))
      world.use({MomentKind::update, number(id)}, id, Tier::host, Access::update).value();
    world.scheduler.end_iteration();
  };
  for (int step = 0; step < 2; ++step) train(true, false);
  const StepPlan* const plan = plan_of(world.scheduler);
  ASSERT_NE(plan, nullptr);
  train(true, true);
  EXPECT_EQ(plan_of(world.scheduler), plan);
  train(false, false);
  EXPECT_EQ(plan_of(world.scheduler), plan) << "the skipped step left no update behind";
  train(true, false);
  EXPECT_EQ(plan_of(world.scheduler), plan);
  EXPECT_EQ(trace_of(world.scheduler).n_moments(), 9u);
}

// Chunks like those of activations: the plan does not know them.
TEST(StatefulTensorMgr, ChunksThatAreNewSinceThePlanMakeRoomForOneAnother) {
  World world(2, 12);
  fill(world, 6);
  for (int step = 0; step < 2; ++step) {
    pass(world, true);
    world.scheduler.end_iteration();
  }
  ASSERT_NE(plan_of(world.scheduler), nullptr);
  world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::device, Access::read).value();
  for (int i = 0; i < 3; ++i) {
    const ChunkId id = world.tiers.chunks.add(ChunkKind::activation, kChunkBytes, "new");
    EXPECT_TRUE(world.mover.open(id, Tier::device).ok()) << i;
    world.tiers.chunks.written(id, Tier::device);
  }
}

/// The thread itself, by a clock whose hands the test turns.
class StreamByHand final : public Stream {
 public:
  Event copy(void*, const void*, std::uint64_t) override {
    throw ContractViolation("the compute stream copies nothing");
  }
  Result<void> wait(const Event& event) override { return event.wait(); }
  Event record() override { return Event(); }
  std::unique_ptr<StreamTime> time() override { return std::make_unique<Time>(now_s); }
  Result<void> synchronize() override { return {}; }

  double now_s = 0;

 private:
  struct Time final : StreamTime {
    explicit Time(double at) : at_s(at) {}
    Result<double> seconds_since(const StreamTime& earlier) const override {
      return at_s - dynamic_cast<const Time&>(earlier).at_s;
    }
    const double at_s;
  };
};

/// A point that the stream reaches `after_s` after the thread has begun to wait for it.
class LateState final : public EventState {
 public:
  LateState(StreamByHand& stream, double after_s) : stream_(stream), after_s_(after_s) {}
  bool ready() const override { return after_s_ == 0; }
  Result<void> wait() const override { return stream_.now_s += std::exchange(after_s_, 0), Result<void>(); }

 private:
  StreamByHand& stream_;
  mutable double after_s_;
};

struct TimedWorld {
  StreamByHand compute;  // before the tiers: their copies in flight point to it
  Tiers tiers;
  StatefulTensorMgr mover{mover_parts(tiers, compute)};
  Scheduler scheduler{scheduler_parts(mover, tiers, compute)};
  ChunkId add() { return tiers.chunks.add(ChunkKind::payload, kChunkBytes, "chunk"); }
};

// The thread's clock advances by 1 µs at each reading: when a moment begins, when its chunks have arrived, and twice
// when it ends.
TEST(StatefulTensorMgr, MomentsOnTheDeviceAreTimedByItsStreamAndOthersByTheThread) {
  TimedWorld world;
  const ChunkId id = world.add();
  for (const Tier tier : {Tier::device, Tier::host}) {
    const std::array needs = {Need{id, tier, Access::overwrite}};
    world.scheduler.begin({MomentKind::forward, 0}, needs).value();
    world.compute.now_s += 2;
    world.scheduler.end(needs);
  }
  world.scheduler.end_iteration();
  ASSERT_EQ(trace_of(world.scheduler).seconds().compute.size(), 2u);
  EXPECT_EQ(trace_of(world.scheduler).seconds().compute[0], 2);
  EXPECT_NEAR(trace_of(world.scheduler).seconds().compute[1], 1e-6, 1e-9);
  for (const double thread_s : trace_of(world.scheduler).seconds().thread) EXPECT_NEAR(thread_s, 3e-6, 1e-9);
  EXPECT_GE(plan_of(world.scheduler)->estimate.step_s, 2);
}

// Four chunks of 10 s each in room for three, as in PlanStep.SetsRoomAsideWhereThatHidesMoves: where moments take no
// time that hides nothing, where they take 11 s it does. The first iteration must not count.
TEST(StatefulTensorMgr, IsPlannedAnewWhenItIsKnownHowLongMomentsTake) {
  constexpr double kCost = 10.0 / kChunkBytes;
  Tiers tiers(3 * kChunkBytes);
  StreamByHand compute;
  StatefulTensorMgr mover(mover_parts(tiers, compute));
  Scheduler scheduler(scheduler_parts(mover, tiers, compute, {kCost, kCost, kCost, kCost}));
  for (const ChunkId id : ids<ChunkId>(4)) {
    (void)tiers.chunks.add(ChunkKind::payload, kChunkBytes, "chunk");
    (void)mover.open(id, Tier::host).value();
    tiers.chunks.written(id, Tier::host);
  }
  const auto iterate = [&](double compute_s) {
    for (const ChunkId id : ids<ChunkId>(4)) {
      const std::array needs = {Need{id, Tier::device, Access::read}};
      scheduler.begin({MomentKind::forward, number(id)}, needs).value();
      compute.now_s += compute_s;
      scheduler.end(needs);
    }
    scheduler.end_iteration();
  };
  iterate(0);
  EXPECT_EQ(plan_of(scheduler)->times, 0);
  for (int i = 0; i < 3; ++i) iterate(11);
  EXPECT_EQ(plan_of(scheduler)->times, 0.25);
  EXPECT_EQ(plan_of(scheduler)->estimate.step_s, 44);
}

/// A point that is reached after the waiting thread has looked around once.
class AfterALookAround final : public EventState {
 public:
  explicit AfterALookAround(std::function<void(int)> waits) : waits_(std::move(waits)) {}
  bool ready() const override { return n_waits_ >= 2; }
  Result<void> wait() const override {
    while (!ready()) (void)wait_for({});
    return {};
  }
  bool wait_for(std::chrono::nanoseconds) const override { return waits_(++n_waits_), ready(); }

 private:
  const std::function<void(int)> waits_;
  mutable int n_waits_ = 0;
};

// Chunk 0 is written below after its update, which ends while the thread waits for that of chunk 1.
TEST(StatefulTensorMgr, CarriesOnWhileItWaits) {
  World world(1, 3);
  fill(world, 2);
  world.mover.planned().set_rest(ChunkId{0}, only(Tier::nvme));
  const auto iteration = [&](const Event& done_0, const Event& done_1) {
    for (std::uint32_t unit = 0; unit < 16; ++unit)
      world.use({MomentKind::forward, unit}, ChunkId{1}, Tier::host, Access::read).value();
    for (const ChunkId id : {ChunkId{0}, ChunkId{1}}) {
      const std::array needs = {Need{id, Tier::host, Access::update}};
      Beside beside{*world.tiers.compute};
      world.scheduler.begin({MomentKind::update, number(id)}, needs, &beside).value();
      world.scheduler.end(needs, id == ChunkId{0} ? done_0 : done_1);
    }
    world.use({MomentKind::forward, 16}, ChunkId{1}, Tier::host, Access::read).value();
    world.scheduler.end_iteration();
  };
  for (int i = 0; i < 3; ++i) iteration({}, {});
  const auto updated = std::make_shared<HostEventState>();
  int n_written_first = -1, n_written_then = -1;
  iteration(Event(updated), Event(std::make_shared<AfterALookAround>([&](int n_waits) {
              (n_waits == 1 ? n_written_first : n_written_then) = world.tiers.spill.n_writes;
              if (n_waits == 1) updated->complete({});
            })));
  EXPECT_EQ(n_written_then, n_written_first + 1);
}

TEST(StatefulTensorMgr, AMomentBesideTheThreadNeedsTheHostAlone) {
  World world(2, 2);
  world.add(1).value();
  const std::array needs = {Need{ChunkId{0}, Tier::device, Access::read}};
  test::DeferredTeam team;
  Beside beside{team};
  EXPECT_THROW((void)world.scheduler.begin({MomentKind::update, 0}, needs, &beside), ContractViolation);
}

// The other moments take 7 s, which the thread does not see: its clock advances by 1 µs at each reading.
TEST(StatefulTensorMgr, AMomentBesideTheThreadIsTimedByWhoDoesIt) {
  TimedWorld world;
  StreamByHand others;
  const ChunkId id = world.add();
  const std::array needs = {Need{id, Tier::host, Access::overwrite}};
  Beside beside{others};
  world.scheduler.begin({MomentKind::update, 0}, needs, &beside).value();
  others.now_s += 7;
  world.scheduler.end(needs);
  world.scheduler.end_iteration();
  ASSERT_EQ(trace_of(world.scheduler).n_moments(), 1u);
  EXPECT_TRUE(trace_of(world.scheduler).moment(0).beside);
  EXPECT_EQ(trace_of(world.scheduler).seconds().compute[0], 7);
  EXPECT_NEAR(trace_of(world.scheduler).seconds().thread[0], 3e-6, 1e-9);
}

TEST(StatefulTensorMgr, WhatAMomentWaitsForMeanwhileIsNotItsComputing) {
  TimedWorld world;
  const ChunkId weights = world.add(), gradients = world.add();
  const std::array needs = {Need{weights, Tier::device, Access::overwrite}};
  world.scheduler.begin({MomentKind::backward, 0}, needs).value();
  world.compute.now_s += 3;
  (void)world.mover.open(gradients, Tier::host).value();
  world.mover.arriving(gradients, Tier::host, kChunkBytes, Event(std::make_shared<LateState>(world.compute, 5)));
  (void)world.mover.look(gradients, Tier::host).value();
  world.compute.now_s += 1;
  world.scheduler.end(needs);
  world.scheduler.end_iteration();
  EXPECT_EQ(world.compute.now_s, 9);
  ASSERT_EQ(trace_of(world.scheduler).seconds().compute.size(), 1u);
  EXPECT_EQ(trace_of(world.scheduler).seconds().compute[0], 4);
}

TEST(StatefulTensorMgr, AFailedReadReachesTheMomentThatNeedsIt) {
  World world(2, 1);
  fill(world, 3);
  world.tiers.spill.fail_read = world.tiers.spill.n_reads + 1;
  const auto failed = world.use({MomentKind::forward, 0}, ChunkId{0}, Tier::host, Access::read);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  EXPECT_EQ(world.tiers.chunks.chunk(ChunkId{0}).at(Tier::host).n_pins, 0u);
}

// With seed 738 a chunk evicted from the host came back from the device while the thread waited for its room.
TEST(StatefulTensorMgr, RandomAccessesUnderRandomBudgetsAgreeWithAPlainVector) {
  for (std::uint32_t seed = 0; seed < test::n_seeds(800); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    World world(1 + seed % 4, 1 + random() % 4, true, seed % 2 == 0 ? make_cpu_device() : test::make_deferred_device());
    const int n_chunks = 1 + static_cast<int>(random() % 8);
    fill(world, n_chunks);
    const std::uint32_t length = 1 + random() % 20;
    const std::array<std::mt19937::result_type, kNIterationKinds> ways = {random(), random()};  // repeat
    for (int iteration = 0; iteration < 8; ++iteration) {
      const std::uint32_t way = iteration < 2 ? 0 : random() % kNIterationKinds;
      world.scheduler.select(static_cast<IterationKind>(way));
      std::mt19937 steps(ways[way]);
      for (std::uint32_t i = 0; i < length; ++i) {
        const bool detour = random() % 16 == 0;
        const std::uint32_t draw = detour ? random() : steps();
        const Tier tier = draw % 2 ? Tier::device : Tier::host;
        const Access access = static_cast<Access>(draw / 2 % 3);
        world
            .use({MomentKind::forward, draw % 1000}, id_at<ChunkId>(draw / 8 % n_chunks), tier, access,
                 static_cast<std::uint8_t>(random()))
            .value();
      }
      random() % 8 == 0 ? world.scheduler.break_off() : world.scheduler.end_iteration();
    }
    for (const ChunkId id : world.expected.ids())
      EXPECT_TRUE(World::holds(world.mover.look(id, Tier::host).value().data, world.expected[id]));
    EXPECT_LE(world.tiers.device_budget.peak_bytes(), world.tiers.device_budget.limit_bytes());
    EXPECT_LE(world.tiers.host_budget.peak_bytes(), world.tiers.host_budget.limit_bytes());
  }
}

}  // namespace
}  // namespace castor
