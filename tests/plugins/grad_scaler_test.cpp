// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/grad_scaler.h>

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace castor {
namespace {

using Options = GradScalerOptions;
using State = DynamicGradScaler::State;

DynamicGradScaler make(const Options& options = {}) { return DynamicGradScaler::make(options).value(); }

void repeat(DynamicGradScaler& scaler, int n, bool overflow) {
  for (int i = 0; i < n; ++i) scaler.update(overflow);
}

std::string message_of(const Options& options) {
  const auto scaler = DynamicGradScaler::make(options);
  EXPECT_FALSE(scaler.ok());
  if (scaler.ok()) return "";
  EXPECT_EQ(scaler.error().kind, ErrorKind::usage);
  return scaler.error().message;
}

std::string refusal_of(DynamicGradScaler& scaler, const State& state) {
  const State before = scaler.state();
  const auto done = scaler.restore(state);
  EXPECT_FALSE(done.ok());
  EXPECT_EQ(scaler.state(), before);
  return done.ok() ? "" : done.error().message;
}

TEST(DynamicGradScaler, BeginsAt65536) { EXPECT_EQ(make().scale(), 65536); }

TEST(DynamicGradScaler, BeginsWhereItIsTold) { EXPECT_EQ(make({.initial_scale = 128}).scale(), 128); }

TEST(DynamicGradScaler, GrowsExactlyAfterAThousandGoodSteps) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 999, false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
  repeat(scaler, 999, false);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 262144);
}

TEST(DynamicGradScaler, AnIntervalOfOneGrowsInEveryGoodStep) {
  DynamicGradScaler scaler = make({.initial_scale = 1, .growth_factor = 3, .growth_interval = 1});
  repeat(scaler, 3, false);
  EXPECT_EQ(scaler.scale(), 27);
}

TEST(DynamicGradScaler, OverflowsBeforeItFirstGrewCountToo) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 5, false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 65536);
  repeat(scaler, 5, false);
  scaler.update(true);  // the second since the start, although good steps are between
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(DynamicGradScaler, EveryOverflowFromTheSecondHalves) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 2, true);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16384);
}

TEST(DynamicGradScaler, HysteresisOfOneBacksOffAtOnce) {
  DynamicGradScaler scaler = make({.hysteresis = 1});
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(DynamicGradScaler, HysteresisOfFourForgivesThree) {
  DynamicGradScaler scaler = make({.backoff_factor = 0.25, .hysteresis = 4});
  repeat(scaler, 3, true);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16384);
}

TEST(DynamicGradScaler, AnOverflowBreaksTheRowOfGoodSteps) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 999, false);
  scaler.update(true);
  repeat(scaler, 999, false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(DynamicGradScaler, GrowthRestoresThePatience) {
  DynamicGradScaler scaler = make({.growth_interval = 10});
  scaler.update(true);
  repeat(scaler, 10, false);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(DynamicGradScaler, GoodStepsShortOfGrowthRestoreNothing) {
  DynamicGradScaler scaler = make({.growth_interval = 10});
  repeat(scaler, 2, true);
  repeat(scaler, 9, false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16384);
}

TEST(DynamicGradScaler, NeverBelowTheMinimum) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 40, true);
  EXPECT_EQ(scaler.scale(), 1);
  DynamicGradScaler odd = make({.initial_scale = 100, .min_scale = 70});
  repeat(odd, 2, true);
  EXPECT_EQ(odd.scale(), 70);
}

TEST(DynamicGradScaler, NeverAboveTheMaximum) {
  DynamicGradScaler scaler = make();
  repeat(scaler, 20 * 1000, false);
  EXPECT_EQ(scaler.scale(), 4294967296.0);
  DynamicGradScaler odd = make({.initial_scale = 100, .growth_interval = 1, .max_scale = 130});
  odd.update(false);
  EXPECT_EQ(odd.scale(), 130);
}

TEST(DynamicGradScaler, AtTheMaximumPatienceIsRestoredToo) {
  DynamicGradScaler scaler = make({.initial_scale = 8, .growth_interval = 2, .max_scale = 8});
  scaler.update(true);
  repeat(scaler, 2, false);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 8);
}

TEST(DynamicGradScaler, ItsStateIsAllThatItsFutureDependsOn) {
  const Options options{.growth_interval = 7, .hysteresis = 3};
  std::mt19937 random(11);  // fixed seed, and printed where it fails
  DynamicGradScaler scaler = make(options);
  for (int step = 0; step < 200; ++step) {
    DynamicGradScaler resumed = make(options);
    ASSERT_TRUE(resumed.restore(scaler.state()).ok());
    DynamicGradScaler original = scaler;
    std::mt19937 future = random;
    for (int i = 0; i < 50; ++i) {
      const bool overflow = future() % 8 == 0;
      original.update(overflow), resumed.update(overflow);
      ASSERT_EQ(original.scale(), resumed.scale()) << "seed 11, step " << step << " + " << i;
    }
    EXPECT_EQ(original.state(), resumed.state());
    scaler.update(random() % 8 == 0);
  }
}

TEST(DynamicGradScaler, StateShowsWhatWasCounted) {
  DynamicGradScaler scaler = make();
  EXPECT_EQ(scaler.state(), (State{65536, 0, 2}));
  scaler.update(true);
  repeat(scaler, 3, false);
  EXPECT_EQ(scaler.state(), (State{65536, 3, 1}));
  repeat(scaler, 2, true);
  EXPECT_EQ(scaler.state(), (State{16384, 0, 0}));
}

TEST(DynamicGradScaler, AStateThatCannotBeIsRefused) {
  DynamicGradScaler scaler = make({.growth_interval = 10});
  EXPECT_EQ(refusal_of(scaler, {0.5, 0, 2}), "scale takes a number from 1 to 4294967296, not 0.5");
  EXPECT_EQ(refusal_of(scaler, {std::numeric_limits<double>::quiet_NaN(), 0, 2}),
            "scale takes a number from 1 to 4294967296, not nan");
  EXPECT_EQ(refusal_of(scaler, {8, 10, 2}), "growth_counter takes a whole number from 0 to 9, not 10");
  EXPECT_EQ(refusal_of(scaler, {8, -1, 2}), "growth_counter takes a whole number from 0 to 9, not -1");
  EXPECT_EQ(refusal_of(scaler, {8, 0, 3}), "hysteresis_left takes a whole number from 0 to 2, not 3");
}

TEST(DynamicGradScaler, FactorsThatCannotBeAreRefused) {
  EXPECT_EQ(message_of({.growth_factor = 1}), "growth_factor takes a number above 1, not 1");
  EXPECT_EQ(message_of({.backoff_factor = 1}), "backoff_factor takes a number above 0 and below 1, not 1");
  EXPECT_EQ(message_of({.backoff_factor = 0}), "backoff_factor takes a number above 0 and below 1, not 0");
  EXPECT_EQ(message_of({.growth_interval = 0}), "growth_interval takes a whole number of 1 or more, not 0");
  EXPECT_EQ(message_of({.hysteresis = 0}), "hysteresis takes a whole number of 1 or more, not 0");
}

TEST(DynamicGradScaler, BoundsThatCannotBeAreRefused) {
  EXPECT_EQ(message_of({.min_scale = 0}), "min_scale takes a number above 0, not 0");
  EXPECT_EQ(message_of({.min_scale = 8, .max_scale = 4}), "max_scale takes a number of 8 or more, not 4");
  EXPECT_EQ(message_of({.max_scale = std::numeric_limits<double>::infinity()}),
            "max_scale takes a number of 1 or more, not inf");
  EXPECT_EQ(message_of({.initial_scale = 0.5}), "initial_scale takes a number from 1 to 4294967296, not 0.5");
  EXPECT_EQ(message_of({.initial_scale = 512, .max_scale = 256}),
            "initial_scale takes a number from 1 to 256, not 512");
}

}  // namespace
}  // namespace castor
