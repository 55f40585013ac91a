// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/offload_optimizer.h>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "optimizer_world.h"

namespace castor {
namespace {

using testing::OptimizerWorld;
using testing::random_gradient;

/// Tensors in chunks of 512 elements: two tensors, two tensors, a frozen one, and one.
std::vector<TensorSpec> six_tensors(DType dtype) {
  return {{200, dtype, true}, {256, dtype, true},  {100, dtype, true},
          {77, dtype, true},  {131, dtype, false}, {512, dtype, true}};
}

OptimizerWorld::Sizes chunks_of_512(DType dtype) { return {512 * size_bytes(dtype)}; }

const StepOptions kPlain{AdamOptions{1e-2, 0.9, 0.95, 1e-8, 0.1, true}, 0, 1};

/// One gradient for each of `tensors`.
void add_gradients(OptimizerWorld& world, std::mt19937_64& random, const std::vector<std::uint32_t>& tensors) {
  for (const std::uint32_t tensor : tensors)
    world.gradient(tensor, random_gradient(random, world.specs[tensor].numel)).value();
}

const std::vector<std::uint32_t> kAllTrainable = {5, 3, 2, 1, 0};

class OffloadOptimizerOn : public ::testing::TestWithParam<std::tuple<DType, Tier>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  Tier home() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(On, OffloadOptimizerOn,
                         ::testing::Combine(::testing::Values(DType::bf16, DType::f16, DType::f32),
                                            ::testing::Values(Tier::device, Tier::host, Tier::nvme)),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param));
                         });

TEST_P(OffloadOptimizerOn, InitialisesMasterMomentsAndWeights) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  world.expect_same_bits();
}

/// The team works on slices of 2^16 elements, of which some begin and end within tensors.
TEST_P(OffloadOptimizerOn, InitialisesAndReadsMoreThanOneThreadTakesAtOnce) {
  OptimizerWorld world(
      {{70'001, dtype(), true}, {77, dtype(), true}, {150'000, dtype(), true}, {66'000, dtype(), false}},
      {std::uint64_t{1} << 20});
  world.start(home()).value();
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, HasTheBitsOfTheStraightLine) {
  for (const bool decoupled : {true, false}) {
    OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
    world.start(home()).value();
    std::mt19937_64 random(41);
    for (int step = 0; step < 4; ++step) {
      add_gradients(world, random, kAllTrainable);
      world.step({AdamOptions{1e-2, 0.9, 0.95, 1e-8, 0.1, decoupled}, 0, 1}).value();
    }
    world.expect_same_bits();
    world.optimizer.reset();  // the last gradients may be read until then
    world.source.expect_each_freed_once();
  }
}

TEST_P(OffloadOptimizerOn, SummedGradientsHaveTheBitsOfTheStraightLine) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  std::mt19937_64 random(42);
  for (int step = 0; step < 2; ++step) {
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
  }
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, TensorsWithoutGradientKeepEverythingAndTheirCounter) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  std::mt19937_64 random(43);
  add_gradients(world, random, kAllTrainable);
  world.step(kPlain).value();
  const auto before = world.held(2);
  add_gradients(world, random, {3, 5});  // 2 and 3 share a chunk
  world.step(kPlain).value();
  testing::expect_same_bits(world.held(2), before);
  add_gradients(world, random, kAllTrainable);
  world.step(kPlain).value();
  EXPECT_EQ(world.n_naive_updates, (std::vector<std::uint64_t>{2, 2, 2, 3, 0, 3}));
  world.expect_same_bits();  // bias corrections show the counter of each update
}

TEST_P(OffloadOptimizerOn, ASkippedStepLeavesEverythingAsItWas) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  std::mt19937_64 random(44);
  StepOptions scaled = kPlain;
  scaled.loss_scale = 1024;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    add_gradients(world, random, {5, 3, 2, 1});
    auto gradient = random_gradient(random, world.specs[0].numel);
    gradient.back() = bad;
    world.gradient(0, gradient).value();
    const auto scale = world.step(scaled).value();
    EXPECT_TRUE(scale.skip);
    EXPECT_FALSE(std::isfinite(scale.grad_norm));
    EXPECT_FALSE(world.optimizer->gradients().store().any(PayloadId{0}));
    world.expect_same_bits();
  }
  add_gradients(world, random, kAllTrainable);
  EXPECT_FALSE(world.step(scaled).value().skip);
  EXPECT_EQ(world.n_naive_updates[0], 1u);
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, ClipsByTheNormOfTheUnscaledGradients) {
  OptimizerWorld world({{400, dtype(), true}, {9, dtype(), true}}, chunks_of_512(dtype()));
  world.start(home()).value();
  StepOptions options = kPlain;
  options.max_norm = 2.5;
  options.loss_scale = 8;
  world.gradient(0, std::vector<float>(400, 16)).value();  // unscaled 2: 400 * 4
  world.gradient(1, std::vector<float>(9, 80)).value();    // unscaled 10: 9 * 100
  const auto scale = world.step(options).value();
  EXPECT_EQ(scale.grad_norm, 50);  // sqrt(1600 + 900)
  EXPECT_DOUBLE_EQ(scale.grad_scale, 2.5 / (50 + 1e-6) / 8);
  world.expect_same_bits();
}

/// A tensor whose gradient is 1 everywhere, after its first update: m/d is 1, up to eps = 0.
float first_update(float master, double lr, double decay) { return static_cast<float>(master * (1 - lr * decay) - lr); }

TEST_P(OffloadOptimizerOn, EachTensorHasTheOptionsOfItsGroup) {
  OptimizerWorld world({{300, DType::f32, true}, {20, DType::f32, true}, {7, DType::f32, true}}, {4 * 512});
  world.start(home()).value();
  StepOptions options = kPlain;
  options.groups = {AdamOptions{0.5, 0.9, 0.99, 0, 0.25, true}, AdamOptions{0.125, 0.5, 0.75, 0, 0, true}};
  options.group_of = {GroupId{1}, GroupId{0}, GroupId{1}};
  std::vector<float> before(3), after(3);
  for (std::uint32_t tensor = 0; tensor < 3; ++tensor) {
    before[tensor] = world.held(tensor).master[0];
    world.gradient(tensor, std::vector<float>(world.specs[tensor].numel, 1)).value();
  }
  world.step(options).value();
  for (std::uint32_t tensor = 0; tensor < 3; ++tensor) after[tensor] = world.held(tensor).master[0];
  EXPECT_NEAR(after[0], first_update(before[0], 0.125, 0), 1e-6);
  EXPECT_NEAR(after[1], first_update(before[1], 0.5, 0.25), 1e-6);
  EXPECT_NEAR(after[2], first_update(before[2], 0.125, 0), 1e-6);
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, SgdKeepsOneMomentAndStepsByHand) {
  auto sizes = chunks_of_512(dtype());
  sizes.format.keeps_exp_avg_sq = false;
  OptimizerWorld world({{4, dtype(), true}}, sizes);
  EXPECT_EQ(world.tiers.chunks.chunk(world.optimizer->states().state(PayloadId{0})).n_bytes,
            8 * world.layout.chunks[PayloadId{0}].numel);
  world.start(home()).value();
  const std::vector<float> before = world.held(0).master;
  const StepOptions options{SgdOptions{.lr = 0.5, .momentum = 0.5}, 0, 2};
  for (const double momentum : {2.0, 3.0}) {  // of gradients of 4/2: 2, then 2/2 + 2
    world.gradient(0, {4, 4, 4, 4}).value();
    world.step(options).value();
    EXPECT_EQ(world.held(0).exp_avg[2], momentum);
  }
  EXPECT_NEAR(world.held(0).master[2], before[2] - 0.5 * 2 - 0.5 * 3, 2e-6 * (3 + std::abs(before[2])));
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, LarsScalesEachTensorByItsNorms) {
  auto sizes = chunks_of_512(dtype());
  sizes.format.keeps_exp_avg_sq = false;
  OptimizerWorld world({{300, dtype(), true}, {4, dtype(), true}}, sizes);
  world.start(home()).value();
  const StepOptions options{SgdOptions{.lr = 1, .trust_coefficient = 0.25}, 0, 2};
  const std::vector<float> before = world.held(1).master;
  double norm = 0;
  for (const float value : testing::widened(world.held(1).weight, dtype())) norm += double{value} * value;
  for (const std::uint32_t tensor : {0u, 1u})
    world.gradient(tensor, std::vector<float>(world.specs[tensor].numel, 4)).value();
  world.step(options).value();
  // Gradients of 4/2 in 4 elements have a norm of 4: each element changes by 2·¼·‖w‖/4.
  const double wanted = before[2] - 2 * 0.25 * std::sqrt(norm) / 4;
  EXPECT_NEAR(world.held(1).master[2], wanted, 4e-7 * (std::abs(wanted) + std::abs(before[2])));
  world.expect_same_bits();
}

/// The long tensor lies in four tiles, whose borders are not borders of the norm's blocks.
TEST_P(OffloadOptimizerOn, LambScalesEachTensorByTheNormsOfMastersAndDirection) {
  OptimizerWorld world({{1900, dtype(), true}, {4, dtype(), true}}, chunks_of_512(dtype()));
  ASSERT_EQ(world.layout.chunks[PayloadId{0}].n_tiles(), 4u);
  world.start(home()).value();
  const StepOptions options{LambOptions{.lr = 0.25, .eps = 0}, 0, 2};
  std::vector<float> before[2];
  for (const std::uint32_t tensor : {0u, 1u}) {
    before[tensor] = world.held(tensor).master;
    world.gradient(tensor, std::vector<float>(world.specs[tensor].numel, 4)).value();
  }
  world.step(options).value();
  for (const std::uint32_t tensor : {0u, 1u}) {
    // The first direction is 1 everywhere, of norm √n: each element changes by ¼·‖p‖/√n.
    double sum = 0;
    for (const float value : before[tensor]) sum += double{value} * value;
    const double moved = 0.25 * std::sqrt(sum / static_cast<double>(before[tensor].size()));
    for (const std::size_t i : {std::size_t{2}, before[tensor].size() - 1})
      EXPECT_NEAR(world.held(tensor).master[i], before[tensor][i] - moved,
                  2e-6 * (moved + std::abs(before[tensor][i])));
  }
  for (int step = 0; step < 2; ++step) {
    world.gradient(0, std::vector<float>(1900, static_cast<float>(step))).value();
    world.step(options).value();
  }
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, ClipsElementsOfTheUnscaledGradients) {
  OptimizerWorld world({{4, dtype(), true}}, chunks_of_512(dtype()));
  world.start(home()).value();
  StepOptions options = kPlain;
  options.loss_scale = 8;
  std::get<AdamOptions>(options.update).beta1 = 0.5;
  std::get<AdamOptions>(options.update).max_value = 2;
  world.gradient(0, {8, 24, -80, -16}).value();  // unscaled 1, 3, -10, -2
  EXPECT_EQ(world.step(options)->grad_scale, 0.125);
  EXPECT_EQ(world.held(0).exp_avg, (std::vector<float>{0.5f, 1, -1, -1}));
  world.expect_same_bits();
}

TEST_P(OffloadOptimizerOn, MastersAreReadBackAfterEviction) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  for (const ChunkId id : world.tiers.chunks.ids())
    for (const Tier tier : {Tier::device, Tier::host}) {
      world.mover.push_down(id, tier).value();
      reap_one(world.tiers.chunks, tier).value();
    }
  EXPECT_EQ(world.tiers.host_budget.used_bytes(), world.tiers.pooled_host.kept_bytes());
  for (std::uint32_t tensor = 0; tensor < world.specs.size(); ++tensor) {
    std::vector<float> master(world.specs[tensor].numel);
    world.read_master(tensor, master).value();
    EXPECT_EQ(master, world.naive[tensor].master);
  }
}

TEST_P(OffloadOptimizerOn, AnotherPlanMovesTheStatesAndKeepsTheirBits) {
  OptimizerWorld world(six_tensors(dtype()), chunks_of_512(dtype()));
  world.start(home()).value();
  std::mt19937_64 random(45);
  const ChunkId state = world.optimizer->states().state(PayloadId{0});
  for (const Tier next : {Tier::device, Tier::nvme, Tier::host, Tier::device, Tier::host, Tier::nvme}) {
    SCOPED_TRACE(name(next));
    add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
    world.adopt(std::vector<Tier>(world.layout.chunks.size(), next)).value();
    add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
    EXPECT_TRUE(world.tiers.chunks.chunk(state).resident(next));
  }
  world.expect_same_bits();
}

/// The bytes that one update of the largest chunk takes on the tier where it runs, with widened gradients.
std::uint64_t one_update_bytes(DType dtype) { return 512 * (12 + 4 + size_bytes(dtype)); }

TEST_P(OffloadOptimizerOn, WorksWithRoomForOneChunkOnly) {
  OptimizerWorld::Sizes sizes = chunks_of_512(dtype());
  sizes.device_bytes = sizes.host_bytes = one_update_bytes(dtype());
  OptimizerWorld world(six_tensors(dtype()), sizes);
  world.start(home()).value();
  EXPECT_GT(world.tiers.host_budget.peak_bytes(), 0u);
  std::mt19937_64 random(46);
  for (int step = 0; step < 3; ++step) {
    add_gradients(world, random, kAllTrainable);
    if (step == 1) add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
  }
  world.expect_same_bits();
  EXPECT_LE(world.tiers.device_budget.peak_bytes(), sizes.device_bytes);
  EXPECT_LE(world.tiers.host_budget.peak_bytes(), sizes.host_bytes);
}

TEST_P(OffloadOptimizerOn, ATensorLargerThanAChunkIsUpdatedInTilesOfWhichOneNeedsRoom) {
  constexpr std::uint64_t kNumel = 2000;
  OptimizerWorld::Sizes sizes = chunks_of_512(dtype());
  sizes.device_bytes = sizes.host_bytes = 512 * 12 + 2048 * 2 * size_bytes(dtype());  // a tile, gradients, weights
  OptimizerWorld world({{kNumel, dtype(), true}}, sizes);
  ASSERT_EQ(world.layout.chunks[PayloadId{0}].n_tiles(), 4u);
  world.start(home()).value();
  std::mt19937_64 random(49);
  for (int step = 0; step < 3; ++step) {
    add_gradients(world, random, {0});
    world.step(kPlain).value();
  }
  world.expect_same_bits();
  std::vector<float> master(kNumel);
  world.read_master(0, master).value();
  EXPECT_EQ(master, world.naive[0].master);
  EXPECT_LE(world.tiers.device_budget.peak_bytes(), sizes.device_bytes);
  EXPECT_LE(world.tiers.host_budget.peak_bytes(), sizes.host_bytes);
}

TEST(OffloadOptimizer, SplitMastersAreUpdatedAndReadBesideTheirWeights) {
  OptimizerWorld::Sizes sizes = chunks_of_512(DType::bf16);
  sizes.device_bytes = sizes.host_bytes = 512 * (10 + 4 + 2);  // one update with widened gradients
  sizes.format.split_master = true;
  for (const Tier home : kTiers) {
    SCOPED_TRACE(name(home));
    OptimizerWorld world(six_tensors(DType::bf16), sizes);
    EXPECT_EQ(world.tiers.chunks.chunk(world.optimizer->states().state(PayloadId{0})).n_bytes, 512u * 10);
    world.start(home).value();
    std::mt19937_64 random(51);
    for (int step = 0; step < 3; ++step) {
      add_gradients(world, random, kAllTrainable);
      if (step == 1) add_gradients(world, random, kAllTrainable);
      world.step(kPlain).value();
    }
    world.expect_same_bits();
    EXPECT_LE(world.tiers.device_budget.peak_bytes(), sizes.device_bytes);
    EXPECT_LE(world.tiers.host_budget.peak_bytes(), sizes.host_bytes);
  }
}

TEST(OffloadOptimizer, WhatIsToLiveOnTheDeviceGoesThereThroughASmallHost) {
  // No tier below: the host holds one chunk at a time, the device everything.
  OptimizerWorld::Sizes sizes = chunks_of_512(DType::bf16);
  sizes.host_bytes = one_update_bytes(DType::bf16);
  sizes.with_spill = false;
  OptimizerWorld world(six_tensors(DType::bf16), sizes);
  world.start(Tier::device).value();
  std::mt19937_64 random(47);
  add_gradients(world, random, kAllTrainable);
  world.step(kPlain).value();
  world.expect_same_bits();
}

TEST(OffloadOptimizer, StatesUpdatedBesideGoToTheDriveWithTheirChecksums) {
  const auto team = make_host_team(2).value();
  OptimizerWorld::Sizes sizes = chunks_of_512(DType::bf16);
  sizes.beside = team.get();
  OptimizerWorld world(six_tensors(DType::bf16), sizes);
  world.tiers.spill.block_bytes = 1000;
  world.start(Tier::nvme).value();
  std::mt19937_64 random(50);
  for (int step = 0; step < 3; ++step) {
    add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
    world.optimizer->io().write_back().value();
  }
  EXPECT_GE(world.tiers.spill.n_checked, 3 * 3) << "the states of three chunks in each step";
  EXPECT_EQ(world.tiers.spill.n_wrong, 0);
  world.expect_same_bits();
}

TEST(OffloadOptimizer, ThePlanHasStatesAtHomeOnNvmeThere) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.start(Tier::nvme).value();
  std::mt19937_64 random(50);
  LinkBytes before;
  for (int step = 0; step < 5; ++step) {
    before = world.tiers.chunks.moved();
    for (std::uint32_t unit = 0; unit < kFetchAhead; ++unit) {
      const std::array needs = {Need{world.optimizer->states().payload(PayloadId{0}), Tier::device, Access::read}};
      world.scheduler.begin({MomentKind::forward, unit}, needs).value();
      world.scheduler.end(needs);
    }
    add_gradients(world, random, kAllTrainable);
    world.step(kPlain).value();
  }
  const std::uint64_t states_bytes = 3 * 512 * 12;
  const LinkBytes& moved = world.tiers.chunks.moved();
  EXPECT_EQ(moved.nvme_read - before.nvme_read, states_bytes);
  EXPECT_EQ(moved.nvme_write - before.nvme_write, states_bytes);
  const StepPlan* plan = plan_of(world.scheduler);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->plan.moved.nvme_read, states_bytes);
  EXPECT_EQ(plan->plan.moved.nvme_write, states_bytes);
}

TEST(OffloadOptimizer, FrozenChunksHaveNoStatesAndKeepTheirWeights) {
  OptimizerWorld world({{300, DType::bf16, false}, {100, DType::bf16, true}}, chunks_of_512(DType::bf16));
  world.start(Tier::nvme).value();
  EXPECT_EQ(world.tiers.spill.n_writes, 1) << "the states of the other chunk";
  std::mt19937_64 random(48);
  add_gradients(world, random, {1});
  world.step(kPlain).value();
  world.expect_same_bits();
}

TEST(OffloadOptimizer, AFailedFillIsHandedOn) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.adopt(std::vector<Tier>(world.layout.chunks.size(), Tier::host)).value();
  const auto outcome =
      world.optimizer->io().initialise({[](TensorId tensor, std::uint64_t, std::span<float> values) -> Result<void> {
        if (tensor == TensorId{3}) return Error{ErrorKind::io, "no more values"};
        values[0] = 0;
        return {};
      }});
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().message, "no more values");
}

/// Three trainable chunks at home on NVMe, none of them on the host, and a gradient for each.
class FailingStep : public ::testing::Test {
 protected:
  FailingStep() {
    world_.start(Tier::nvme).value();
    std::mt19937_64 random(49);
    add_gradients(world_, random, kAllTrainable);
    for (const PayloadId chunk : world_.layout.chunks.ids())
      if (world_.layout.chunks[chunk].trainable)
        world_.mover.push_down(world_.optimizer->states().state(chunk), Tier::host).value();
    reap_one(world_.tiers.chunks, Tier::host).value();
  }

  void expect_poisoned() {
    const auto refused = world_.optimizer->step(kPlain);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, ErrorKind::failed);
    EXPECT_NE(refused.error().message.find("between two steps"), std::string::npos) << refused.error().message;
  }

  OptimizerWorld world_{six_tensors(DType::bf16), chunks_of_512(DType::bf16)};
};

TEST_F(FailingStep, AReadThatFailsBeforeTheFirstUpdateLeavesTheStepToBeTakenAgain) {
  world_.tiers.spill.fail_read = world_.tiers.spill.n_reads + 1;
  const auto failed = world_.optimizer->step(kPlain);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  world_.step(kPlain).value();
  world_.expect_same_bits();
}

TEST_F(FailingStep, AReadThatFailsAfterAnUpdatePoisons) {
  world_.tiers.spill.fail_read = world_.tiers.spill.n_reads + 2;
  const auto failed = world_.optimizer->step(kPlain);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  expect_poisoned();
}

TEST_F(FailingStep, AWriteThatFailsAfterAnUpdatePoisons) {
  world_.tiers.spill.fail_write = world_.tiers.spill.n_writes + 1;
  const auto failed = world_.optimizer->step(kPlain);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  expect_poisoned();
}

TEST_F(FailingStep, TheLastWriteThatFailsLosesNothing) {
  world_.tiers.spill.fail_write = world_.tiers.spill.n_writes + 3;
  world_.step(kPlain).value();  // the write ends after the step
  EXPECT_FALSE(reap_one(world_.tiers.chunks, Tier::host).ok());
  const ChunkId state = world_.optimizer->states().state(PayloadId{3});
  world_.mover.push_down(state, Tier::host).value();
  reap_one(world_.tiers.chunks, Tier::host).value();
  EXPECT_FALSE(world_.tiers.chunks.chunk(state).resident(Tier::host));
  world_.expect_same_bits();
}

TEST_F(FailingStep, InterruptedBeforeTheFirstChunkItCanBeTakenAgain) {
  world_.n_until_interrupt = 0;
  const auto interrupted = world_.optimizer->step(kPlain);
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().kind, ErrorKind::interrupted);
  world_.step(kPlain).value();
  world_.expect_same_bits();
}

TEST_F(FailingStep, InterruptedBetweenChunksPoisons) {
  world_.n_until_interrupt = 1;
  const auto interrupted = world_.optimizer->step(kPlain);
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().kind, ErrorKind::interrupted);
  expect_poisoned();
}

/// Updates that run only when a caller waits for them.
class UpdatesBeside : public ::testing::Test {
 protected:
  UpdatesBeside() {
    world_.start(Tier::host).value();
    for (int step = 0; step < 6; ++step) {  // the first few are timed, and therefore wait for the updates
      add_gradients(world_, random_, kAllTrainable);
      world_.step(kPlain).value();
    }
  }

  static OptimizerWorld::Sizes with(HostTeam& team) {
    OptimizerWorld::Sizes sizes = chunks_of_512(DType::bf16);
    sizes.beside = &team;
    return sizes;
  }

  Result<void> forward(std::uint32_t i) {
    const std::array needs = {Need{world_.optimizer->states().payload(PayloadId{i}), Tier::device, Access::read}};
    CASTOR_TRY(world_.scheduler.begin({MomentKind::forward, i}, needs));
    world_.scheduler.end(needs);
    return {};
  }

  /// Updates that have run since the last call.
  std::uint32_t n_run() { return team_.n_run() - std::exchange(n_seen_, team_.n_run()); }

  test::DeferredTeam team_;
  std::uint32_t n_seen_ = 0;
  std::mt19937_64 random_{51};
  OptimizerWorld world_{six_tensors(DType::bf16), with(team_)};
};

TEST_F(UpdatesBeside, WhoNeedsAChunkWaitsForItsOwnUpdateAlone) {
  team_.run_all();
  (void)n_run();
  add_gradients(world_, random_, kAllTrainable);
  world_.step(kPlain).value();
  EXPECT_EQ(n_run(), 0u) << "a step is over when its updates are queued";
  forward(0).value();
  EXPECT_EQ(n_run(), 1u);
  forward(1).value();
  EXPECT_EQ(n_run(), 1u);
  forward(3).value();
  EXPECT_EQ(n_run(), 1u) << "three of four chunks are trained";
  world_.expect_same_bits();
}

TEST_F(UpdatesBeside, GradientsOfTheNextStepWaitForTheUpdatesThatReadTheLastOnes) {
  for (int step = 0; step < 3; ++step) {
    add_gradients(world_, random_, kAllTrainable);  // no parameter was read meanwhile
    world_.step(kPlain).value();
  }
  world_.expect_same_bits();
  world_.optimizer.reset();  // the last gradients may be read until then
  world_.source.expect_each_freed_once();
}

TEST_F(UpdatesBeside, WhatIsCompleteIsUpdatedBeforeTheStep) {
  const auto land = [this](std::initializer_list<std::uint32_t> tensors) {
    add_gradients(world_, random_, tensors);
    world_.optimizer->update_early().value();
  };
  world_.optimizer->announce(kPlain).value();
  land({5, 3, 2, 1, 0});
  world_.step(kPlain).value();
  team_.run_all();
  (void)n_run();
  world_.optimizer->announce(kPlain).value();
  land({5, 3});
  team_.run_all();
  EXPECT_EQ(n_run(), 1u) << "the last chunk's";
  land({2, 1});
  team_.run_all();
  EXPECT_EQ(n_run(), 1u) << "tensors 2 and 3";
  land({0});
  world_.step(kPlain).value();
  forward(0).value();
  EXPECT_EQ(n_run(), 1u);
  world_.expect_same_bits();
}

/// All gradients have arrived and all chunks are updated, but the step is not ended.
class UpdatedEarly : public UpdatesBeside {
 protected:
  UpdatedEarly() {
    for (int step = 0; step < 2; ++step) {
      world_.optimizer->announce(kPlain).value();
      add_gradients(world_, random_, kAllTrainable);
      world_.optimizer->update_early().value();
      if (step == 0) world_.step(kPlain).value();
    }
  }

  void expect_poisoned(const Error& error, const char* what) {
    EXPECT_EQ(error.kind, ErrorKind::failed);
    EXPECT_NE(error.message.find(what), std::string::npos) << error.message;
    const auto stepped = world_.optimizer->step(kPlain);
    ASSERT_FALSE(stepped.ok());
    EXPECT_NE(stepped.error().message.find("between two steps"), std::string::npos) << stepped.error().message;
  }
};

TEST_F(UpdatedEarly, AnotherGradientIsRefusedAndGivenBack) {
  int n_freed = 0;
  const std::vector<std::uint16_t> gradient(world_.specs[0].numel);
  const auto late = world_.optimizer->add_gradient(TensorId{0}, {gradient.data(), [&n_freed] { ++n_freed; }});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(n_freed, 1);
  expect_poisoned(late.error(), "a gradient arrived for");
}

TEST_F(UpdatedEarly, AUnitThatNeedsTheChunkOnceMoreIsRefused) {
  const auto late = world_.optimizer->use(PayloadId{0});
  ASSERT_FALSE(late.ok());
  expect_poisoned(late.error(), "a unit needs");
}

TEST_F(UpdatedEarly, ASecondBackwardPassIsRefused) {
  const auto again = world_.optimizer->announce(kPlain);
  ASSERT_FALSE(again.ok());
  expect_poisoned(again.error(), "between two steps");
}

TEST_F(UpdatedEarly, AbandoningIsRefused) {
  const auto abandoned = world_.optimizer->abandon();
  ASSERT_FALSE(abandoned.ok());
  expect_poisoned(abandoned.error(), "between two steps");
}

TEST_F(UpdatedEarly, AnotherLearningRateThanAnnouncedIsRefusedAndTheAnnouncedOneGoesOn) {
  StepOptions other = kPlain;
  std::get<AdamOptions>(other.update).lr *= 2;
  const auto refused = world_.optimizer->step(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  world_.step(kPlain).value();
  world_.expect_same_bits();
}

TEST_F(UpdatedEarly, OtherGroupsThanAnnouncedAreRefused) {
  StepOptions other = kPlain;
  other.groups = {kPlain.update, kPlain.update};
  other.group_of = IndexedVector<TensorId, GroupId>(6, GroupId{0});
  other.group_of[TensorId{2}] = other.group_of[TensorId{5}] = GroupId{1};
  const auto refused = world_.optimizer->step(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

TEST_F(UpdatedEarly, MastersAreNotShownBeforeTheStep) {
  std::vector<float> master(world_.specs[0].numel);
  const auto early = world_.read_master(0, master);
  ASSERT_FALSE(early.ok());
  EXPECT_EQ(early.error().kind, ErrorKind::usage);
}

TEST_F(UpdatesBeside, AFailureBesideComesFromWhoNeedsTheChunkAndFromTheNextStep) {
  add_gradients(world_, random_, kAllTrainable);
  team_.fail_next({ErrorKind::io, "the update failed"});
  world_.optimizer->step(kPlain).value();
  const auto forwarded = forward(0);
  ASSERT_FALSE(forwarded.ok());
  EXPECT_EQ(forwarded.error().message, "the update failed");
  const auto stepped = world_.optimizer->step(kPlain);
  ASSERT_FALSE(stepped.ok());
  EXPECT_NE(stepped.error().message.find("between two steps"), std::string::npos);
  EXPECT_NE(stepped.error().message.find("the update failed"), std::string::npos);
}

TEST_F(UpdatedEarly, StatesAreNeitherReadNorWrittenBeforeTheStep) {
  std::vector<float> master(world_.specs[0].numel);
  StateValues states{0, master.size(), master.data()};
  const auto read = world_.optimizer->io().read(TensorId{0}, states);
  const auto written = world_.optimizer->io().write(TensorId{0}, states);
  for (const auto* outcome : {&read, &written}) {
    ASSERT_FALSE(outcome->ok());
    EXPECT_EQ(outcome->error().kind, ErrorKind::usage);
  }
}

TEST(OffloadOptimizer, StatesThatATensorHasNotAreRefused) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.start(Tier::host).value();
  const std::uint64_t numel = world.specs[0].numel;
  std::vector<float> values(numel + 1);
  for (const auto& [first, n] : {std::pair(std::uint64_t{0}, numel + 1), std::pair(numel, std::uint64_t{1}),
                                 std::pair(~std::uint64_t{0}, std::uint64_t{2})}) {
    StateValues states{first, n, values.data()};
    EXPECT_EQ(world.optimizer->io().read(TensorId{0}, states).error().kind, ErrorKind::usage);
    EXPECT_EQ(world.optimizer->io().write(TensorId{0}, states).error().kind, ErrorKind::usage);
  }
}

TEST(OffloadOptimizer, InterruptedWhileInitialisingSaysSo) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.n_until_interrupt = 2;
  const auto interrupted = world.start(Tier::host);
  ASSERT_FALSE(interrupted.ok());
  EXPECT_EQ(interrupted.error().kind, ErrorKind::interrupted);
}

TEST(OffloadOptimizer, AStepWithALostGradientIsRefusedAndChangesNothing) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.start(Tier::host).value();
  std::mt19937_64 random(50);
  add_gradients(world, random, {2});  // 3 lies in the same chunk
  const PayloadId chunk = world.layout.tensors[TensorId{2}].chunk;
  world.mover.push_down(world.optimizer->gradients().store().chunk(chunk), Tier::host).value();
  reap_one(world.tiers.chunks, Tier::host).value();
  world.tiers.spill.fail_read = world.tiers.spill.n_reads + 1;
  ASSERT_FALSE(world.gradient(3, random_gradient(random, world.specs[3].numel)).ok());
  const auto refused = world.optimizer->step(kPlain);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  world.expect_same_bits();
}

TEST(OffloadOptimizer, AnAbandonedStepLeavesNoGradientAndNoErrorBehind) {
  OptimizerWorld world(six_tensors(DType::bf16), chunks_of_512(DType::bf16));
  world.start(Tier::host).value();
  std::mt19937_64 random(52);
  add_gradients(world, random, {5, 2});
  const PayloadId chunk = world.layout.tensors[TensorId{2}].chunk;
  world.mover.push_down(world.optimizer->gradients().store().chunk(chunk), Tier::host).value();
  reap_one(world.tiers.chunks, Tier::host).value();
  world.tiers.spill.fail_read = world.tiers.spill.n_reads + 1;
  ASSERT_FALSE(world.gradient(3, random_gradient(random, world.specs[3].numel)).ok());
  world.optimizer->abandon().value();
  EXPECT_TRUE(world.optimizer->gradients().store().intact().ok());
  for (const ChunkId id : world.tiers.chunks.ids()) {
    const Chunk& left = world.tiers.chunks.chunk(id);
    EXPECT_FALSE(left.kind == ChunkKind::gradient && left.has_contents()) << left.label;
  }
  world.sums.clear();
  add_gradients(world, random, kAllTrainable);
  world.step(kPlain).value();
  world.expect_same_bits();
}

// ---- the first iteration, which is recorded ----

class FirstIteration : public ::testing::Test {
 protected:
  FirstIteration() { world_.start(Tier::host).value(); }

  /// Uses the weights of every chunk, as a forward pass does.
  void forward() {
    for (const PayloadId chunk : world_.layout.chunks.ids()) {
      const std::vector<Need> needs = {{world_.optimizer->states().payload(chunk), Tier::device, Access::read}};
      world_.optimizer->prepare({&chunk, 1}).value();
      world_.scheduler.begin({MomentKind::forward, number(chunk)}, needs).value();
      world_.scheduler.end(needs);
    }
  }
  /// One step with a norm; with `overflow` it is skipped.
  void train(bool overflow = false) {
    forward();
    add_gradients(world_, random_, {5, 3, 2, 1});
    auto gradient = random_gradient(random_, world_.specs[0].numel);
    if (overflow) gradient.back() = std::numeric_limits<float>::infinity();
    world_.gradient(0, gradient).value();
    StepOptions scaled = kPlain;
    scaled.loss_scale = 8;
    EXPECT_EQ(world_.step(scaled).value().skip, overflow);
  }
  /// The chunks whose update is a moment of the trace.
  std::set<std::uint32_t> updated_in_trace() const {
    std::set<std::uint32_t> found;
    const AccessTrace& trace = world_.scheduler.trace();
    for (std::uint32_t m = 0; m < trace.n_moments(); ++m)
      if (trace.moment(m).kind == MomentKind::update) found.insert(trace.moment(m).id);
    return found;
  }
  std::set<std::uint32_t> trained() const {
    std::set<std::uint32_t> found;
    for (const PayloadId chunk : world_.layout.chunks.ids())
      if (world_.layout.chunks[chunk].trainable) found.insert(number(chunk));
    return found;
  }
  /// Trains twice, and expects that the second iteration has a plan, made of a trace with all updates.
  void expect_a_plan_after_the_first_update() {
    train();
    EXPECT_EQ(updated_in_trace(), trained());
    forward();
    EXPECT_NE(world_.scheduler.plan(), nullptr);
    EXPECT_EQ(updated_in_trace(), trained());
  }

  OptimizerWorld world_{six_tensors(DType::bf16), chunks_of_512(DType::bf16)};
  std::mt19937_64 random_{78};
};

TEST_F(FirstIteration, IsPlannedWhenItHasEnded) { expect_a_plan_after_the_first_update(); }

TEST_F(FirstIteration, IsRecordedAgainWhereItsStepWasSkipped) {
  train(/*overflow=*/true);
  EXPECT_TRUE(world_.scheduler.trace().empty()) << "a step without updates is no half of a plan";
  train(/*overflow=*/true);
  expect_a_plan_after_the_first_update();
  world_.expect_same_bits();
}

TEST_F(FirstIteration, IsRecordedAgainWhereItsStepHadNoGradient) {
  world_.step(kPlain).value();
  forward();
  world_.step(kPlain).value();
  EXPECT_TRUE(world_.scheduler.trace().empty());
  expect_a_plan_after_the_first_update();
}

/// Streamed states, with updates beside the thread.
class StreamedStates : public ::testing::Test {
 protected:
  StreamedStates() { world_.start(homes_, std::vector<bool>(homes_.size(), true)).value(); }

  void train(const StepOptions& options) {
    add_gradients(world_, random_, kAllTrainable);
    world_.step(options).value();
  }
  bool any_waits() const {
    for (std::uint32_t i = 0; i < homes_.size(); ++i)
      if (world_.optimizer->update_waits(PayloadId{i})) return true;
    return false;
  }

  const std::unique_ptr<HostTeam> team_ = make_host_team(2).value();
  OptimizerWorld world_{six_tensors(DType::bf16), [this] {
                          auto sizes = chunks_of_512(DType::bf16);
                          sizes.beside = team_.get();
                          return sizes;
                        }()};
  const std::vector<Tier> homes_ = std::vector<Tier>(world_.layout.chunks.size(), Tier::host);
  std::mt19937_64 random_{77};
};

TEST_F(StreamedStates, AreUpdatedWhereTheCallerSettles) {
  train(kPlain);
  ASSERT_TRUE(any_waits());
  world_.optimizer->settle().value();
  EXPECT_FALSE(any_waits());
  world_.optimizer->settle().value();  // nothing waits any more
  train(kPlain);
  world_.optimizer->settle().value();
  world_.expect_same_bits();
}

TEST_F(StreamedStates, AreUpdatedWhenTheirWeightsAreUsed) {
  train(kPlain);
  for (std::uint32_t i = 0; i < homes_.size(); ++i) {
    EXPECT_EQ(world_.optimizer->update_waits(PayloadId{i}), world_.layout.chunks[PayloadId{i}].trainable);
    world_.optimizer->use(PayloadId{i}).value();
    EXPECT_FALSE(world_.optimizer->update_waits(PayloadId{i}));
    if (world_.layout.chunks[PayloadId{i}].trainable) {
      EXPECT_TRUE(world_.tiers.chunks.chunk(world_.optimizer->states().state(PayloadId{i})).resident(Tier::device));
    }
  }
  world_.expect_same_bits();
}

TEST_F(StreamedStates, AreUpdatedAtTheLatestBeforeTheNextGradientsCome) {
  StepOptions clipped = kPlain;
  clipped.max_norm = 0.5;
  train(clipped);
  EXPECT_TRUE(any_waits());
  world_.optimizer->announce(kPlain).value();
  EXPECT_FALSE(any_waits());
  train(kPlain);
  train(clipped);  // not announced: each chunk is updated before its first gradient
  world_.expect_same_bits();
}

TEST_F(StreamedStates, AreUpToDateForWhoeverReadsThem) {
  train(kPlain);
  world_.held(5);
  EXPECT_TRUE(any_waits()) << "those of other chunks wait on";
  world_.optimizer->io().write_back().value();
  EXPECT_FALSE(any_waits());
  world_.expect_same_bits();
}

TEST_F(StreamedStates, ASkippedStepLeavesNothingWaiting) {
  StepOptions scaled = kPlain;
  scaled.loss_scale = 8;
  world_.gradient(5, std::vector<float>(512, std::numeric_limits<float>::infinity())).value();
  EXPECT_TRUE(world_.step(scaled).value().skip);
  EXPECT_FALSE(any_waits());
  world_.expect_same_bits();
}

TEST_F(StreamedStates, StayWaitingWhereTheNextStepIsAbandoned) {
  train(kPlain);
  world_.optimizer->use(PayloadId{0}).value();
  const std::vector<std::uint16_t> gradient(world_.specs[0].numel);
  world_.optimizer->add_gradient(TensorId{0}, {gradient.data(), nullptr}).value();
  world_.optimizer->abandon().value();
  EXPECT_FALSE(world_.optimizer->gradients().store().any(PayloadId{0}));
  EXPECT_TRUE(any_waits());
  train(kPlain);
  world_.expect_same_bits();
}

TEST_F(StreamedStates, AnUpdateThatFailsLaterPoisonsTheModel) {
  train(kPlain);
  world_.mover.push_down(world_.optimizer->states().state(PayloadId{0}), Tier::host).value();
  ASSERT_TRUE(world_.tiers.chunks.drain().ok());
  world_.tiers.spill.fail_read = world_.tiers.spill.n_reads + 1;
  const auto refused = world_.optimizer->use(PayloadId{0});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(world_.optimizer->announce(kPlain).error().kind, ErrorKind::failed);
}

}  // namespace
}  // namespace castor
