// SPDX-License-Identifier: Apache-2.0
// Reference values marked "torch" are those of torch.optim.lr_scheduler in PyTorch 2.13 (float64 on a CPU), printed
// with repr(); the others are worked out by hand.
#include <castor/plugins/lr_schedule.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace castor {
namespace {

using Kind = LrScheduleKind;

LrSchedule make(const LrScheduleOptions& options) { return LrSchedule::make(options).value(); }

/// The rates of steps 0, 1, … against `expected`, to a relative 1e-13: torch's recurrences round otherwise.
void expect_rates(const LrSchedule& schedule, const std::vector<double>& expected) {
  for (std::size_t step = 0; step < expected.size(); ++step)
    EXPECT_NEAR(schedule.at(static_cast<std::int64_t>(step)), expected[step], 1e-13 * expected[step])
        << "step " << step;
}

std::string message_of(const LrScheduleOptions& options) {
  const auto schedule = LrSchedule::make(options);
  EXPECT_FALSE(schedule.ok());
  if (schedule.ok()) return "";
  EXPECT_EQ(schedule.error().kind, ErrorKind::usage);
  return schedule.error().message;
}

/// One of each kind over 20 steps, with a warm-up of 4 where the kind has one.
std::vector<LrSchedule> one_of_each() {
  std::vector<LrSchedule> all;
  for (const Kind kind : kLrScheduleKinds)
    all.push_back(make({.kind = kind,
                        .lr = 0.1,
                        .warmup_steps = 4,
                        .decay_steps = 20,
                        .min_lr = 0.01,
                        .milestones = {6, 9},
                        .gamma = 0.5,
                        .power = 2}));
  return all;
}

TEST(LrSchedule, ConstantIsTheRateItself) {
  const LrSchedule schedule = make({.lr = 6e-4});
  for (const std::int64_t step : {0, 1, 1000000}) EXPECT_EQ(schedule.at(step), 6e-4);
}

TEST(LrSchedule, WarmUpRisesFromOneShareToTheWhole) {
  const LrSchedule schedule = make({.lr = 0.8, .warmup_steps = 4});
  expect_rates(schedule, {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
  EXPECT_EQ(schedule.at(3), 0.8);
}

TEST(LrSchedule, EveryKindWarmsUpAlikeButOneCycle) {
  for (const LrSchedule& schedule : one_of_each()) {
    if (schedule.options().kind == Kind::onecycle) continue;
    SCOPED_TRACE(name(schedule.options().kind));
    expect_rates(schedule, {0.025, 0.05, 0.075, 0.1, 0.1});
  }
}

TEST(LrSchedule, LinearFallsByEqualAmounts) {
  // torch: LinearLR(start_factor=1, end_factor=0.2, total_iters=10) of 0.1, but 0.02 exactly at its end.
  const LrSchedule schedule = make({.kind = Kind::linear, .lr = 0.1, .decay_steps = 10, .min_lr = 0.02});
  expect_rates(schedule, {0.1, 0.092, 0.084, 0.076, 0.068, 0.06, 0.052, 0.044, 0.036, 0.028, 0.02, 0.02});
  EXPECT_EQ(schedule.at(10), 0.02);
  EXPECT_EQ(schedule.at(1000), 0.02);
}

TEST(LrSchedule, CosineWithoutWarmUp) {
  const LrSchedule schedule = make({.kind = Kind::cosine, .lr = 0.1, .decay_steps = 10, .min_lr = 0.01});
  EXPECT_EQ(schedule.at(0), 0.1);
  // torch: CosineAnnealingLR(T_max=10, eta_min=0.01)
  EXPECT_NEAR(schedule.at(1), 0.09779754323328192, 1e-15);
  EXPECT_NEAR(schedule.at(3), 0.08145033635316129, 1e-15);
  EXPECT_NEAR(schedule.at(5), 0.055, 1e-15);
  EXPECT_NEAR(schedule.at(9), 0.012202456766718092, 1e-15);
  EXPECT_EQ(schedule.at(10), 0.01);
}

TEST(LrSchedule, CosineStaysAtTheMinimum) {
  const LrSchedule schedule = make({.kind = Kind::cosine, .lr = 0.1, .decay_steps = 10, .min_lr = 0.01});
  for (const std::int64_t step : {11, 15, 20, 1000000}) EXPECT_EQ(schedule.at(step), 0.01);
}

TEST(LrSchedule, CosineAfterWarmUp) {
  // torch: SequentialLR of LinearLR(1/4, 1, total_iters=3) and CosineAnnealingLR(T_max=8, eta_min=0.01) from step 4.
  expect_rates(make({.kind = Kind::cosine, .lr = 0.1, .warmup_steps = 4, .decay_steps = 12, .min_lr = 0.01}),
               {0.025, 0.05, 0.075, 0.1, 0.1, 0.0965745789630079, 0.08681980515339463, 0.07222075445642905, 0.055,
                0.03777924554357096, 0.023180194846605363, 0.013425421036992097, 0.01, 0.01});
}

TEST(LrSchedule, CosineAtThirdsByHand) {
  // cos 60° = 1/2, cos 120° = −1/2: three quarters and one quarter of the way.
  const LrSchedule schedule = make({.kind = Kind::cosine, .lr = 1, .decay_steps = 3});
  EXPECT_NEAR(schedule.at(1), 0.75, 1e-15);
  EXPECT_NEAR(schedule.at(2), 0.25, 1e-15);
  EXPECT_EQ(schedule.at(3), 0);
}

TEST(LrSchedule, MultiStepFallsAtEachMilestone) {
  // torch: MultiStepLR(milestones=[3, 5, 8], gamma=0.5) of 0.1
  expect_rates(make({.kind = Kind::multistep, .lr = 0.1, .milestones = {3, 5, 8}, .gamma = 0.5}),
               {0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125});
}

TEST(LrSchedule, ExponentialFallsInEachStep) {
  const LrSchedule schedule = make({.kind = Kind::exponential, .lr = 0.1, .gamma = 0.9});
  expect_rates(schedule, {0.1, 0.09, 0.081, 0.0729, 0.06561});
  EXPECT_NEAR(schedule.at(10), 0.03486784401, 1e-15);  // 0.9^10 = 0.3486784401
}

TEST(LrSchedule, ExponentialCountsFromTheEndOfWarmUp) {
  expect_rates(make({.kind = Kind::exponential, .lr = 0.1, .warmup_steps = 2, .gamma = 0.5}),
               {0.05, 0.1, 0.1, 0.05, 0.025});
}

TEST(LrSchedule, PolynomialOfPowerTwo) {
  const LrSchedule schedule = make({.kind = Kind::polynomial, .lr = 0.1, .decay_steps = 10, .power = 2});
  expect_rates(schedule, {0.1, 0.081, 0.064, 0.049, 0.036, 0.025, 0.016, 0.009, 0.004, 0.001});
  EXPECT_EQ(schedule.at(10), 0);
  EXPECT_EQ(schedule.at(12), 0);
}

TEST(LrSchedule, PolynomialOfPowerOneHalf) {
  // torch: PolynomialLR(total_iters=10, power=0.5) of 0.1
  const LrSchedule schedule = make({.kind = Kind::polynomial, .lr = 0.1, .decay_steps = 10, .power = 0.5});
  EXPECT_NEAR(schedule.at(1), 0.09486832980505139, 1e-15);
  EXPECT_NEAR(schedule.at(5), 0.07071067811865475, 1e-15);
  EXPECT_NEAR(schedule.at(9), 0.03162277660168379, 1e-15);
}

TEST(LrSchedule, PolynomialEndsAtTheMinimumAfterWarmUp) {
  // Two steps up, then 4 down: 0.2 + 0.8·(1, 9/16, 1/4, 1/16, 0).
  expect_rates(
      make({.kind = Kind::polynomial, .lr = 1, .warmup_steps = 2, .decay_steps = 6, .min_lr = 0.2, .power = 2}),
      {0.5, 1, 1, 0.65, 0.4, 0.25, 0.2, 0.2});
}

TEST(LrSchedule, PolynomialOfPowerOneIsLinear) {
  LrScheduleOptions options{.kind = Kind::linear, .lr = 0.3, .warmup_steps = 3, .decay_steps = 17, .min_lr = 0.1};
  const LrSchedule linear = make(options);
  options.kind = Kind::polynomial;
  const LrSchedule polynomial = make(options);
  for (std::int64_t step = 0; step < 20; ++step) EXPECT_EQ(linear.at(step), polynomial.at(step));
}

TEST(LrSchedule, OneCycleIsThatOfTorch) {
  // torch: OneCycleLR(max_lr=0.1, total_steps=20)
  expect_rates(make({.kind = Kind::onecycle, .lr = 0.1, .decay_steps = 20}),
               {0.004, 0.013167184270002533, 0.037167184270002526, 0.06683281572999747, 0.09083281572999748, 0.1,
                0.09874640062350874, 0.09504846320134738, 0.089091617757105, 0.0811745653949763, 0.07169430017913009,
                0.06112620219362893, 0.0500002, 0.03887419780637107, 0.028306099820869922, 0.0188258346050237,
                0.010908782242895003, 0.004951936798652629, 0.0012539993764912555});
}

TEST(LrSchedule, OneCycleEndsInItsLastStep) {
  const LrSchedule schedule = make({.kind = Kind::onecycle, .lr = 0.1, .decay_steps = 20});
  EXPECT_NEAR(schedule.at(19), 4e-7, 1e-20);
  EXPECT_EQ(schedule.at(1000), schedule.at(19));
}

TEST(LrSchedule, OneCycleWithFactorsOfItsOwn) {
  // torch: OneCycleLR(max_lr=0.1, total_steps=20, pct_start=0.25, div_factor=10, final_div_factor=100)
  const LrSchedule schedule = make({.kind = Kind::onecycle,
                                    .lr = 0.1,
                                    .decay_steps = 20,
                                    .pct_start = 0.25,
                                    .div_factor = 10,
                                    .final_div_factor = 100});
  expect_rates(schedule, {0.01, 0.023180194846605356, 0.055, 0.08681980515339464, 0.1, 0.0989084726566536});
  EXPECT_NEAR(schedule.at(11), 0.0552711967402193, 1e-15);
  EXPECT_NEAR(schedule.at(19), 0.0001, 1e-17);
}

TEST(LrSchedule, OneCycleOfOnlyOneHalf) {
  LrScheduleOptions options{.kind = Kind::onecycle, .lr = 1, .decay_steps = 5, .pct_start = 1, .div_factor = 2};
  expect_rates(make(options), {0.5, 0.5 + 0.25 * (1 - std::sqrt(0.5)), 0.75, 0.75 + 0.25 * std::sqrt(0.5), 1, 1});
  options.pct_start = 0;  // the peak would be step −1
  EXPECT_LT(make(options).at(0), 1);
  options.decay_steps = 1, options.pct_start = 1;
  EXPECT_EQ(make(options).at(0), 1);
}

TEST(LrSchedule, ARateDependsOnItsStepAlone) {
  for (const LrSchedule& schedule : one_of_each()) {
    SCOPED_TRACE(name(schedule.options().kind));
    std::vector<double> forwards;
    for (std::int64_t step = 0; step < 30; ++step) forwards.push_back(schedule.at(step));
    const LrSchedule resumed = make(schedule.options());
    for (std::int64_t step = 29; step >= 0; --step)
      EXPECT_EQ(resumed.at(step), forwards[static_cast<std::size_t>(step)]);
  }
}

TEST(LrSchedule, NeverLeavesZeroToTheRate) {
  for (const LrSchedule& schedule : one_of_each())
    for (std::int64_t step = 0; step < 100; ++step) {
      EXPECT_GE(schedule.at(step), 0) << name(schedule.options().kind) << " in step " << step;
      EXPECT_LE(schedule.at(step), 0.1) << name(schedule.options().kind) << " in step " << step;
    }
}

TEST(LrSchedule, StepsBeforeTheFirstBreakTheContract) { EXPECT_THROW(make({.lr = 1}).at(-1), ContractViolation); }

TEST(LrSchedule, TheRateIsAFiniteNumberOfZeroOrMore) {
  EXPECT_EQ(message_of({.lr = -1}), "lr takes a number of 0 or more, not -1");
  EXPECT_EQ(message_of({.lr = std::numeric_limits<double>::quiet_NaN()}), "lr takes a number of 0 or more, not nan");
  EXPECT_EQ(message_of({.lr = std::numeric_limits<double>::infinity()}), "lr takes a number of 0 or more, not inf");
}

TEST(LrSchedule, StepsOfWarmUpAndDecayAreChecked) {
  EXPECT_EQ(message_of({.warmup_steps = -1}), "warmup_steps takes a whole number of 0 or more, not -1");
  for (const Kind kind : {Kind::linear, Kind::cosine, Kind::polynomial, Kind::onecycle})
    EXPECT_EQ(message_of({.kind = kind}), "decay_steps takes a whole number of 1 or more, not 0");
  for (const Kind kind : {Kind::linear, Kind::cosine, Kind::polynomial})
    EXPECT_EQ(message_of({.kind = kind, .warmup_steps = 7, .decay_steps = 7}),
              "warmup_steps takes fewer than the decay's 7 steps, not 7");
}

TEST(LrSchedule, TheMinimumIsNotAboveTheRate) {
  EXPECT_EQ(message_of({.kind = Kind::cosine, .lr = 0.1, .decay_steps = 7, .min_lr = 0.2}),
            "min_lr takes a number from 0 to the learning rate, 0.1, not 0.2");
  EXPECT_EQ(message_of({.kind = Kind::linear, .lr = 0.1, .decay_steps = 7, .min_lr = -0.5}),
            "min_lr takes a number from 0 to the learning rate, 0.1, not -0.5");
  EXPECT_TRUE(LrSchedule::make({.kind = Kind::linear, .lr = 0.1, .decay_steps = 7, .min_lr = 0.1}).ok());
}

TEST(LrSchedule, MilestonesAscendBehindTheWarmUp) {
  LrScheduleOptions options{.kind = Kind::multistep, .gamma = 0.1};
  EXPECT_EQ(message_of(options), "milestones takes at least one step, and there is none");
  options.milestones = {3, 3};
  EXPECT_EQ(message_of(options), "milestones takes steps in ascending order, each once, from 1 on, not 3");
  options.milestones = {0};
  EXPECT_EQ(message_of(options), "milestones takes steps in ascending order, each once, from 1 on, not 0");
  options.milestones = {4}, options.warmup_steps = 5;
  EXPECT_EQ(message_of(options), "milestones takes steps in ascending order, each once, from 5 on, not 4");
  options.milestones = {5};
  EXPECT_TRUE(LrSchedule::make(options).ok());
}

TEST(LrSchedule, FactorsAreChecked) {
  for (const double gamma : {0.0, -1.0, 1.5})
    EXPECT_EQ(
        message_of({.kind = Kind::exponential, .gamma = gamma}).rfind("gamma takes a number above 0, at most 1", 0),
        0u);
  EXPECT_EQ(message_of({.kind = Kind::multistep, .milestones = {1}, .gamma = 2}),
            "gamma takes a number above 0, at most 1, not 2");
  EXPECT_EQ(message_of({.kind = Kind::polynomial, .decay_steps = 2, .power = 0}),
            "power takes a number above 0, not 0");
  EXPECT_EQ(message_of({.kind = Kind::onecycle, .decay_steps = 2, .pct_start = 1.5}),
            "pct_start takes a number from 0 to 1, not 1.5");
  EXPECT_EQ(message_of({.kind = Kind::onecycle, .decay_steps = 2, .div_factor = 0.5}),
            "div_factor takes a number of 1 or more, not 0.5");
  EXPECT_EQ(message_of({.kind = Kind::onecycle, .decay_steps = 2, .final_div_factor = 0}),
            "final_div_factor takes a number of 1 or more, not 0");
}

}  // namespace
}  // namespace castor
