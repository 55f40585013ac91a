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

/// Under which gradients are gathered on the device, or on the host.
const PlacementPolicy kPolicies[] = {PlacementPolicy::cuda, PlacementPolicy::cpu};

castor_values all_of(std::uint32_t param, std::vector<float>& values) {
  return {sizeof(castor_values), param, 0, values.size(), CASTOR_FP32, values.data()};
}

TEST(EnginePendingGradients, AreReadAsTheSumOfTheMicroBatchesByRange) {
  for (const PlacementPolicy policy : kPolicies) {
    EngineOptions options;
    options.placement_policy = policy;
    Two run(options);
    run.backward(1, 3), run.backward(0, 4);
    run.engine->end_of_backward().value();
    float some[2] = {};
    run.engine->values().read_gradient({sizeof(castor_values), 0, 298, CASTOR_ALL, CASTOR_FP32, some}).value();
    EXPECT_EQ(some[0], 4) << "kept in bf16";
    run.backward(0, 0.0078125f);  // 2^-7, which bf16 loses beside 4
    run.engine->end_of_backward().value();
    run.engine->values().read_gradient({sizeof(castor_values), 0, 298, CASTOR_ALL, CASTOR_FP32, some}).value();
    EXPECT_EQ(some[1], 4.0078125f);
    run.engine->values().read_gradient({sizeof(castor_values), 1, 0, 1, CASTOR_FP32, some}).value();
    EXPECT_EQ(some[0], 3);
  }
}

TEST(EnginePendingGradients, WrittenTrainAsIfTheyHadArrived) {
  for (const PlacementPolicy policy : kPolicies)
    for (const double max_norm : {0.0, 1.0}) {
      EngineOptions options;
      options.placement_policy = policy;
      Two written(options), scaled(options);
      for (int step = 0; step < 3; ++step) {
        written.backward(1, 3), written.backward(0, 4), written.backward(0, 1);
        scaled.backward(1, 1.5), scaled.backward(0, 2), scaled.backward(0, 0.5);
        for (Two* run : {&written, &scaled}) run->engine->end_of_backward().value();
        for (std::uint32_t param = 0; param < 2; ++param) {
          std::vector<float> values(kNumel);
          written.engine->values().read_gradient(all_of(param, values)).value();
          for (float& value : values) value /= 2;
          written.engine->values().write_gradient(all_of(param, values)).value();
        }
        const auto norm = written.engine->step(written.args(max_norm)).value().grad_norm;
        EXPECT_EQ(norm, scaled.engine->step(scaled.args(max_norm)).value().grad_norm);
      }
      EXPECT_EQ(written.master(0), scaled.master(0));
      EXPECT_EQ(written.master(1), scaled.master(1));
    }
}

TEST(EnginePendingGradients, OnesThatArriveLaterAreAddedToWrittenValues) {
  Two written, plain;
  written.backward(0, 8), plain.backward(0, 2);
  for (Two* run : {&written, &plain}) run->engine->end_of_backward().value();
  std::vector<float> values(kNumel, 2);
  written.engine->values().write_gradient(all_of(0, values)).value();
  for (Two* run : {&written, &plain}) {
    run->backward(0, 1);
    run->engine->end_of_backward().value();
  }
  written.engine->values().read_gradient(all_of(0, values)).value();
  EXPECT_EQ(values, std::vector<float>(kNumel, 3));
  for (Two* run : {&written, &plain}) run->engine->step(run->args(1)).value();
  EXPECT_EQ(written.master(0), plain.master(0));
}

TEST(EnginePendingGradients, AParameterWithoutOneGetsItByAWriteOfAllItsValues) {
  Two written, plain;
  for (Two* run : {&written, &plain}) run->backward(1, 3);
  plain.backward(0, 5);
  for (Two* run : {&written, &plain}) run->engine->end_of_backward().value();
  std::vector<float> values(kNumel, 5);
  ValueCalls& calls = written.engine->values();
  const std::string none = "parameter w has no gradient since the last step; it gets one by writing all its 300 values";
  const auto read = calls.read_gradient(all_of(0, values));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, none);
  const auto part = calls.write_gradient({sizeof(castor_values), 0, 1, CASTOR_ALL, CASTOR_FP32, values.data()});
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.error().message, none);
  calls.write_gradient(all_of(0, values)).value();
  for (Two* run : {&written, &plain}) run->engine->step(run->args(0)).value();
  EXPECT_EQ(written.master(0), plain.master(0));
  EXPECT_FALSE(calls.read_gradient(all_of(0, values)).ok()) << "of the step that has ended";
}

/// With 0.5 written in place of 3 the norm is that of other gradients than speculation saw arrive.
TEST(EnginePendingGradients, WrittenAfterSpeculativeUpdatesReplaceThem) {
  EngineOptions options;
  options.placement_policy = PlacementPolicy::cpu;
  options.speculative_updates = true;
  Two written(options), plain(options);
  for (int step = 0; step < 4; ++step)
    for (Two* run : {&written, &plain}) {
      run->engine->announce_step(run->args(1000)).value();
      const bool replaces = step == 3 && run == &written;
      run->backward(1, 1), run->backward(0, step < 3 ? 1 : replaces ? 3 : 0.5f);
      run->engine->end_of_backward().value();
      std::vector<float> values(kNumel, 0.5);
      if (replaces) run->engine->values().write_gradient(all_of(0, values)).value();
      run->engine->step(run->args(1000)).value();
    }
  EXPECT_EQ(written.master(0), plain.master(0));
  EXPECT_EQ(written.master(1), plain.master(1));
}

TEST(EnginePendingGradients, WrongRequestsAreRefused) {
  FakeModelHost host({{"w", {4}, test::kBf16, {1, 1, 1, 1}}, {"base", {4}, test::kBf16, {2, 2, 2, 2}, false}},
                     {{"a", {0, 1}}});
  const auto engine = Engine::make(host, {}).value();
  engine->attach().value();
  float some[4] = {};
  const struct {
    castor_values values;
    std::string sentence;
  } rows[] = {
      {{sizeof(castor_values), 2, 0, 4, CASTOR_FP32, some}, "parameter 2 was asked for, the model has 2"},
      {{sizeof(castor_values), 1, 0, 4, CASTOR_FP32, some}, "parameter base is frozen, so it has no gradient"},
      {{sizeof(castor_values), 0, 0, 4, CASTOR_OWN, some}, "gradients are fp32; they are read as nothing else"},
      {{sizeof(castor_values), 0, 2, 3, CASTOR_FP32, some}, "values 2 to 5 of parameter 0 were asked for; it has 4"},
  };
  for (const auto& row : rows)
    for (const bool writes : {false, true}) {
      const auto refused =
          writes ? engine->values().write_gradient(row.values) : engine->values().read_gradient(row.values);
      ASSERT_FALSE(refused.ok()) << row.sentence;
      EXPECT_EQ(refused.error().message, row.sentence);
      EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    }
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

/// With a norm, streamed updates wait for the next use of their chunk, unless the caller has them made.
TEST(EngineSettle, ChangesNoBits) {
  const SmallTraining training({.max_norm = 0.5});
  GpuRig rig;
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  EngineOptions options = training.options();
  options.placement_policy = PlacementPolicy::shares;
  options.offload_optim_frac = 1;
  options.stream_optim_frac = 1;
  auto engine = Engine::make(*host, options, rig.machine()).value();
  engine->attach().value();
  engine->settle().value();
  for (std::uint32_t step = 0; step < 5; ++step) {
    training.run(*engine, *host, step, step + 1).value();
    engine->settle().value();
  }
  EXPECT_EQ(training.masters(*engine).value(), training.expected(5));
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
