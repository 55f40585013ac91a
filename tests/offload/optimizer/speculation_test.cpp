// SPDX-License-Identifier: Apache-2.0
// Updates that are taken back leave nothing behind, in whatever order the team works.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../../support/shuffled_team.h"
#include "optimizer_world.h"

namespace castor::testing {
namespace {

class TakenBack : public ::testing::TestWithParam<UpdateOptions> {};

/// The first norm is below the bound, so that the second step updates before its norm is known, which is above it.
TEST_P(TakenBack, LeavesNoTrustRatioBehind) {
  for (std::uint64_t seed = 0; seed < 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::ShuffledTeam team(seed);
    const std::vector<TensorSpec> specs = {{9000, DType::bf16, true, UnitId{0}},  // in several tiles
                                           {300, DType::bf16, true, UnitId{0}}};
    OptimizerWorld world(specs, {.speculates = true, .beside = &team});
    ASSERT_GT(world.layout.chunks[PayloadId{0}].n_tiles(), 1u);
    world.start(Tier::host).value();
    StepOptions options;
    options.update = GetParam();
    options.max_norm = 1;
    for (const float size : {1e-4f, 1e4f}) {
      world.optimizer->announce(options).value();
      for (std::uint32_t tensor = 0; tensor < specs.size(); ++tensor)
        world.gradient(tensor, std::vector<float>(specs[tensor].numel, size)).value();
      world.optimizer->update_early().value();
      const StepScale scale = world.step(options).value();
      EXPECT_EQ(scale.grad_scale < 1, size > 1);
      EXPECT_EQ(world.optimizer->speculates(), size < 1);
    }
    std::size_t n_undo = 0;
    for (const ChunkId id : world.tiers.chunks.ids()) n_undo += world.tiers.chunks.chunk(id).kind == ChunkKind::undo;
    EXPECT_GT(n_undo, 0u) << "nothing was updated before the norm was known";
    world.expect_same_bits();
  }
}

/// A chunk of one tile on the host: 4 KiB of weights, as much of gradients, and 24 KiB of states.
constexpr std::uint64_t kWeightBytes = 4096, kStateBytes = 6 * kWeightBytes;

struct OneTile {
  explicit OneTile(OptimizerWorld::Sizes sizes)
      : world({{kWeightBytes / 2, DType::bf16, true, UnitId{0}}}, set(sizes)) {
    options.max_norm = 1;
    world.start(Tier::host).value();
    arrive(1e-4f);
    world.step(options).value();
    EXPECT_TRUE(world.optimizer->speculates());
  }

  OptimizerWorld::Sizes set(OptimizerWorld::Sizes sizes) {
    sizes.speculates = true;
    sizes.beside = &team;
    return sizes;
  }

  /// The gradient of the next step, all of whose elements are `size`.
  void arrive(float size) {
    world.optimizer->announce(options).value();
    world.gradient(0, std::vector<float>(kWeightBytes / 2, size)).value();
  }

  /// Writes the states below the host.
  void sink_states() {
    const ChunkId id = world.optimizer->states().state(PayloadId{0}, TileId{});
    world.mover.push_down(id, Tier::host).value();
    (void)reap_one(world.tiers.chunks, Tier::host).value();
    ASSERT_FALSE(world.tiers.chunks.chunk(id).at(Tier::host).buffer);
  }

  /// Fills `n_bytes` of the host with contents that only a write to the drive can move.
  void fill_host(std::uint64_t n_bytes) {
    const ChunkId id = world.tiers.chunks.add(ChunkKind::payload, n_bytes, "filler");
    (void)world.mover.open(id, Tier::host).value();
    world.tiers.chunks.written(id, Tier::host);
  }

  bool has_undo() const {
    const auto all = world.tiers.chunks.ids();
    return std::any_of(all.begin(), all.end(),
                       [this](ChunkId id) { return world.tiers.chunks.chunk(id).kind == ChunkKind::undo; });
  }

  test::ShuffledTeam team{1};
  StepOptions options;
  OptimizerWorld world;
};

// The host has room for the old contents (28 KiB) beside weights and gradients, but not for the states as well. Without
// the old contents all have room.
TEST(Speculation, AnUpdateThatFindsNoRoomIsLeftToTheStep) {
  OneTile training({.host_bytes = 12 * kWeightBytes});
  training.arrive(1e-4f);
  training.sink_states();
  EXPECT_TRUE(training.world.optimizer->update_early().ok());
  EXPECT_TRUE(training.has_undo()) << "the update was not begun";
  for (int step = 0; step < 3; ++step) {
    training.world.step(training.options).value();
    training.arrive(1e-4f);
    EXPECT_TRUE(training.world.optimizer->update_early().ok());
  }
  training.world.step(training.options).value();
  EXPECT_NE(plan_of(training.world.scheduler), nullptr) << "the steps after it are alike";
  training.world.expect_same_bits();
}

// To take the update back the states have to come to the host again, where a chunk has to be written below first.
TEST(Speculation, AnUpdateCanBeTakenBackAfterAnInterrupt) {
  const MemorySpillStore* spill = nullptr;
  int n_writes = 0;
  OneTile training({.host_bytes = 30 * kWeightBytes, .wait_limits = {.interrupted = [&] {
                      return spill != nullptr && spill->hold_writes && spill->n_writes > n_writes;
                    }}});
  MemorySpillStore& drive = training.world.tiers.spill;
  spill = &drive;
  training.arrive(1e4f);
  training.world.optimizer->update_early().value();
  ASSERT_TRUE(training.has_undo());
  training.sink_states();
  training.fill_host(kStateBytes);
  training.fill_host(training.world.tiers.host_budget.free_bytes());
  n_writes = drive.n_writes;
  drive.hold_writes = true;
  const auto interrupted = training.world.step(training.options);
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().kind, ErrorKind::interrupted) << interrupted.error().message;
  drive.hold_writes = false;
  drive.finish_writes();
  const auto scale = training.world.step(training.options);
  ASSERT_TRUE(scale.ok()) << scale.error().message;
  EXPECT_LT(scale->grad_scale, 1);
  training.world.expect_same_bits();
}

INSTANTIATE_TEST_SUITE_P(Rules, TakenBack,
                         ::testing::Values(UpdateOptions(SgdOptions{.lr = 0.1, .trust_coefficient = 0.25}),
                                           UpdateOptions(LambOptions{})));

}  // namespace
}  // namespace castor::testing
