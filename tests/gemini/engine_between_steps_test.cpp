// SPDX-License-Identifier: Apache-2.0
// The engine's answers between backward and step, and between steps: norms, memory given back, frozen parameters.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <cmath>

#include "gpu_rig.h"
#include "small_training.h"

namespace castor {
namespace {

using test::FakeModelHost;
using test::GpuRig;
using test::SmallTraining;

constexpr std::int64_t kNumel = 300;

/// Two parameters in units of their own.
struct Two {
  explicit Two(EngineOptions options = {}) {
    options.update_threads = 1;
    engine = Engine::make(host, options).value();
    engine->attach().value();
  }
  void backward(std::uint32_t unit, float value) {
    engine->before_backward(unit).value();
    engine->gradient(unit, host.make_gradient(unit, std::vector<float>(kNumel, value))).value();
    engine->after_backward(unit).value();
  }
  castor_step_args args(double max_norm) const {
    auto args = SmallTraining().step_args();
    args.max_norm = max_norm;
    return args;
  }
  std::vector<float> master(std::uint32_t param) {
    std::vector<float> values(kNumel);
    engine->read_master(param, values.data()).value();
    return values;
  }

  FakeModelHost host{{{"w", {kNumel}, test::kBf16, std::vector<float>(kNumel, 1)},
                      {"v", {kNumel}, test::kBf16, std::vector<float>(kNumel, 2)}},
                     {{"a", {0}}, {"b", {1}}}};
  std::unique_ptr<Engine> engine;
};

TEST(EngineNorm, IsThatOfAllGradientsAndChangesNothing) {
  Two measured, plain;
  for (Two* run : {&measured, &plain}) {
    run->backward(1, 3), run->backward(0, 4), run->backward(0, 2);  // the second one of a micro-batch
    run->engine->end_of_backward().value();
  }
  EXPECT_DOUBLE_EQ(measured.engine->measure_norm().value(), std::sqrt(kNumel * (9.0 + 36.0)));
  EXPECT_DOUBLE_EQ(measured.engine->measure_norm().value(), std::sqrt(kNumel * (9.0 + 36.0))) << "once more";
  for (Two* run : {&measured, &plain}) run->engine->step(run->args(0)).value();
  EXPECT_EQ(measured.master(0), plain.master(0));
  EXPECT_EQ(measured.master(1), plain.master(1));
}

TEST(EngineNorm, IsThatOfAStepThatClips) {
  Two run;
  run.backward(1, 3);
  run.engine->end_of_backward().value();
  const double norm = run.engine->measure_norm().value();
  EXPECT_DOUBLE_EQ(run.engine->step(run.args(0.5)).value().grad_norm, norm);
}

TEST(EngineNorm, OfNothingIsZeroAndOfInfIsNotFinite) {
  Two run;
  EXPECT_EQ(run.engine->measure_norm().value(), 0);
  run.backward(0, INFINITY);
  EXPECT_FALSE(std::isfinite(run.engine->measure_norm().value()));
}

/// In the second step chunks are updated as soon as they have as many gradients as in the first.
TEST(EngineNorm, AfterEarlyUpdatesIsRefused) {
  EngineOptions options;
  options.placement_policy = PlacementPolicy::cpu;
  Two run(options);
  for (int step = 0; step < 2; ++step) {
    run.engine->announce_step(run.args(0)).value();
    run.backward(1, 1), run.backward(0, 1);
    run.engine->end_of_backward().value();
    if (step == 0) run.engine->step(run.args(0)).value();
  }
  const auto refused = run.engine->measure_norm();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message.find("parameters were updated early in this step"), std::string::npos);
  EXPECT_TRUE(run.engine->step(run.args(0)).ok());
}

TEST(EngineStepResult, IsThatOfTheLastStepAlone) {
  Two run;
  EXPECT_FALSE(run.engine->step_result(0).ok()) << "no step was begun";
  const std::uint64_t first = run.engine->begin_step(run.args(0)).value();
  EXPECT_EQ(run.engine->step_result(first).value().skipped, 0);
  const std::uint64_t second = run.engine->begin_step(run.args(0)).value();
  EXPECT_TRUE(run.engine->step_result(second).ok());
  const auto stale = run.engine->step_result(first);
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().message, "the result of step 1 was asked for, the last one is 2");
}

TEST(EngineValues, EveryRankOfOneKeepsAll) {
  Two run;
  const castor_ranges ranges = run.engine->values().owned_ranges(1).value();
  ASSERT_EQ(ranges.n, 1u);
  EXPECT_EQ(ranges.first_and_end[0], 0u);
  EXPECT_EQ(ranges.first_and_end[1], std::uint64_t{kNumel});
  EXPECT_FALSE(run.engine->values().owned_ranges(2).ok());
}

TEST(EngineValues, MastersAreReadByRange) {
  Two run;
  float some[3] = {};
  run.engine->values().read_masters({sizeof(castor_values), 1, 297, CASTOR_ALL, CASTOR_FP32, some}).value();
  EXPECT_EQ(some[0], 2);
  EXPECT_EQ(some[2], 2);
  EXPECT_FALSE(run.engine->values().read_masters({sizeof(castor_values), 1, 298, 3, CASTOR_FP32, some}).ok());
  const auto own = run.engine->values().read_masters({sizeof(castor_values), 1, 0, 1, CASTOR_OWN, some});
  ASSERT_FALSE(own.ok());
  EXPECT_EQ(own.error().message, "masters are fp32; they are read as nothing else");
}

TEST(EngineValues, AParameterFrozenAtTheStartCannotBeTrainedLater) {
  FakeModelHost host({{"w", {4}, test::kBf16, {1, 1, 1, 1}}, {"base", {4}, test::kBf16, {2, 2, 2, 2}, false}},
                     {{"a", {0, 1}}});
  const auto engine = Engine::make(host, {}).value();
  engine->attach().value();
  EXPECT_TRUE(engine->values().set_trainable(0, 0).ok());
  EXPECT_TRUE(engine->values().set_trainable(0, 1).ok());
  EXPECT_TRUE(engine->values().set_trainable(1, 0).ok());
  const auto refused = engine->values().set_trainable(1, 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message,
            "base was frozen when the model was boosted and has no optimizer states; boost the model with it trained");
}

/// Four units of 8 KiB each fit on the device; between two passes none is in use.
TEST(EngineReclaim, FreesUnusedWeightsAndChangesNothing) {
  const SmallTraining training;
  GpuRig rig;
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  EngineOptions options = training.options();
  options.device_budget_bytes = 256 << 10;
  auto engine = Engine::make(*host, options, rig.machine()).value();
  engine->attach().value();
  training.run(*engine, *host, 0, 2).value();
  const std::uint64_t before_bytes = rig.allocator.allocated_bytes();
  const std::uint64_t freed_bytes = engine->reclaim(training.unit_bytes() + 1).value();
  EXPECT_GE(freed_bytes, 2 * training.unit_bytes());
  EXPECT_EQ(before_bytes - rig.allocator.allocated_bytes(), freed_bytes);
  EXPECT_EQ(host->bound(3), nullptr) << "the weights that the next step needs last";
  EXPECT_EQ(engine->reclaim(0).value(), 0u);
  training.run(*engine, *host, 2, 4).value();
  EXPECT_EQ(training.masters(*engine).value(), training.expected(4));
}

TEST(EngineReclaim, LeavesWeightsInUse) {
  const SmallTraining training;
  GpuRig rig;
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  auto engine = Engine::make(*host, training.options(), rig.machine()).value();
  engine->attach().value();
  engine->before_forward(2).value();
  (void)engine->reclaim(1 << 30).value();
  EXPECT_NE(host->bound(2), nullptr);
  engine->after_forward(2).value();
}

}  // namespace
}  // namespace castor
