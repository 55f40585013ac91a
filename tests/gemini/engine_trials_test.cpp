// SPDX-License-Identifier: Apache-2.0
// The trials of streamed shares and of update threads, on a fake GPU whose clock the test sets.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_rooms.h"
#include "gpu_rig.h"
#include "held_planner.h"
#include "seeds.h"
#include "small_training.h"

namespace castor {
namespace {

using test::GpuRig;
using test::SmallTraining;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint32_t kUnits = 8;

/// A training whose states are on the host, where updates take most of a step.
class TrialRun {
 public:
  explicit TrialRun(const EngineOptions& options, double max_norm = 0,
                    decltype(Machine::make_planner) make_planner = nullptr,
                    decltype(Machine::make_pinner) make_pinner = nullptr)
      : training({.n_units = kUnits, .numel = 1024, .max_norm = max_norm}) {
    rig.team.job_ns = 10 * kMs;
    rig.make_planner = std::move(make_planner);
    rig.make_pinner = std::move(make_pinner);
    host->allocate_from(rig.allocator);
    engine = Engine::make(*host, options, rig.machine()).value();
    engine->attach().value();
  }
  static EngineOptions options(unsigned n_threads) {
    EngineOptions options = SmallTraining({.n_units = kUnits, .numel = 1024}).options();
    options.placement_policy = PlacementPolicy::cpu;
    options.update_threads = n_threads;
    return options;
  }

  /// Steps that take as long as `step_ms` says of the number of units that the GPU updated in the step before.
  void steps(std::uint32_t n, const std::function<std::uint64_t(std::uint32_t n_streamed)>& step_ms) {
    for (const std::uint32_t end = n_steps_ + n; n_steps_ < end; ++n_steps_) {
      rig.clock.advance((step_ms(n_streamed_) - 2 * kUnits) * kMs);
      const std::uint64_t before_bytes = engine->stats().value().h2d_bytes;
      training.run(*engine, *host, n_steps_, n_steps_ + 1, [this](std::uint32_t) { rig.clock.advance(kMs); }).value();
      const std::uint64_t moved_bytes = engine->stats().value().h2d_bytes - before_bytes;
      // The weights of each unit that the host updates come up; states on the device stay, as it has room for them.
      n_streamed_ =
          kUnits - static_cast<std::uint32_t>(std::min<std::uint64_t>(kUnits, moved_bytes / training.unit_bytes()));
    }
  }
  void expect_bits_of_the_host() const { EXPECT_EQ(training.masters(*engine).value(), training.expected(n_steps_)); }
  /// The log's only sentence with `part`.
  std::string sentence(const std::string& part) const {
    std::string found;
    for (const std::string& call : host->calls())
      if (call.find(part) != std::string::npos) found += call;
    return found;
  }
  std::uint32_t n_streamed() const { return n_streamed_; }
  /// Reads the states of a parameter and writes them as they are.
  void write_states_again(std::uint32_t param) {
    std::vector<float> master(1024), exp_avg(1024), exp_avg_sq(1024);
    castor_param_state state = {sizeof state,      param, 0,      1024, master.data(), exp_avg.data(),
                                exp_avg_sq.data(), 0,     nullptr};
    engine->values().read_state(state).value();
    engine->values().write_state(state).value();
  }

  const SmallTraining training;
  GpuRig rig;
  const std::unique_ptr<test::FakeModelHost> host = training.make_host(GpuRig::kWhere);
  std::unique_ptr<Engine> engine;

 private:
  std::uint32_t n_steps_ = 0, n_streamed_ = 0;
};

constexpr const char* kShares = "of the optimizer states that are kept off the GPU are copied to it";
constexpr const char* kThreads = "threads update during backward";

/// The host updates all eight units in 80 ms, the bus is idle: all may be streamed, and four, the first among them, have
/// most of the gain.
constexpr std::uint32_t kForecast = 4;

std::uint64_t fastest_as_forecast(std::uint32_t n_streamed) {
  return n_streamed == kForecast ? 60 : n_streamed == 0 ? 100 : 80;
}

TEST(ShareTrial, BeginsOnceTheTimesOfAStepAreKnown) {
  TrialRun run(TrialRun::options(1));
  run.steps(6, [](std::uint32_t) { return 100; });
  EXPECT_EQ(run.n_streamed(), 0u) << "the warm-up, a recorded step, and three that are timed";
  run.steps(2, [](std::uint32_t) { return 100; });
  EXPECT_EQ(run.n_streamed(), kForecast) << "updates on the host are most of a step, and the bus is idle";
}

TEST(ShareTrial, KeepsTheShareOfTheForecastWhereStepsAreShorter) {
  TrialRun run(TrialRun::options(1));
  run.steps(16, fastest_as_forecast);
  EXPECT_EQ(run.sentence(kShares),
            "50 % of the optimizer states that are kept off the GPU are copied to it for their updates: 0.060 s a step "
            "instead of 0.100");
  EXPECT_EQ(run.n_streamed(), kForecast);
  run.expect_bits_of_the_host();
}

/// Streamed updates wait for their chunk's next use then, and those on the host are speculative.
TEST(ShareTrial, KeepsTheShareOfStepsWithANorm) {
  TrialRun run(TrialRun::options(1), /*max_norm=*/1000);
  run.steps(40, fastest_as_forecast);
  EXPECT_EQ(run.n_streamed(), kForecast);
  run.expect_bits_of_the_host();
}

TEST(ShareTrial, KeepsNoneWhereNoneIsFaster) {
  TrialRun run(TrialRun::options(1));
  std::uint32_t most_streamed = 0;
  run.steps(30, [&most_streamed](std::uint32_t n_streamed) {
    most_streamed = std::max(most_streamed, n_streamed);
    return n_streamed == 0 ? 100 : 120;
  });
  EXPECT_GT(most_streamed, 0u) << "some were tried";
  EXPECT_EQ(run.n_streamed(), 0u);
  EXPECT_EQ(run.sentence(kShares), "");
  run.expect_bits_of_the_host();
}

TEST(ShareTrial, TheForecastDecidesWhereStepsDifferByLessThanTheirMediansTell) {
  for (const std::uint32_t with_share : {102, 103}) {
    TrialRun run(TrialRun::options(1));
    run.steps(30, [&](std::uint32_t n_streamed) { return n_streamed == 0 ? 100 : with_share; });
    EXPECT_EQ(run.n_streamed(), with_share == 102 ? kForecast : 0);
  }
}

TEST(ShareTrial, AStatedShareIsNotTried) {
  EngineOptions options = TrialRun::options(1);
  options.stream_optim_frac = 0.5;
  TrialRun run(options);
  run.steps(30, [](std::uint32_t) { return 100; });
  EXPECT_EQ(run.n_streamed(), 4u);
  EXPECT_EQ(run.sentence(kShares), "");
  run.expect_bits_of_the_host();
}

// ---- plans made beside the steps ----

using test::HeldPlanner;
using test::lend;
using test::planner_thread;

/// Before a share is in use, the plan from final times, the forecasts of shares, and then the plan for the share must be
/// made.
TEST(ShareTrial, StepsGoOnUnderTheShareInUseUntilTheNextOneIsPlanned) {
  HeldPlanner planner;
  TrialRun run(TrialRun::options(1), 0, lend(planner));
  run.steps(8, fastest_as_forecast);
  EXPECT_EQ(planner.n_held(), 1u);
  EXPECT_TRUE(run.engine->rooms().scheduler->plan() != nullptr);
  planner.release();
  run.steps(1, fastest_as_forecast);
  EXPECT_EQ(planner.n_held(), 1u) << "shares";
  run.steps(3, fastest_as_forecast);
  planner.release();
  run.steps(1, fastest_as_forecast);
  EXPECT_EQ(planner.n_held(), 1u) << "another placement";
  run.steps(3, fastest_as_forecast);
  EXPECT_EQ(run.n_streamed(), 0u);
  EXPECT_TRUE(run.engine->rooms().scheduler->plan() != nullptr);
  planner.release();
  for (int i = 0; i < 3; ++i) {
    run.steps(1, fastest_as_forecast);
    EXPECT_TRUE(run.engine->rooms().scheduler->plan() != nullptr) << "step " << i << " after it was adopted";
  }
  EXPECT_EQ(run.n_streamed(), kForecast);
  run.expect_bits_of_the_host();
}

/// Steps that went on under the old share do not count for the new one.
TEST(ShareTrial, KeepsTheShareHoweverLongPlansTake) {
  HeldPlanner planner;
  TrialRun run(TrialRun::options(1), 0, lend(planner));
  for (int i = 0; i < 40; ++i) {
    run.steps(5, fastest_as_forecast);
    planner.release();
  }
  EXPECT_TRUE(run.engine->tuned());
  EXPECT_NE(run.sentence(kShares).find("0.060 s a step instead of 0.100"), std::string::npos) << run.sentence(kShares);
  EXPECT_EQ(run.n_streamed(), kForecast);
  run.expect_bits_of_the_host();
}

TEST(ShareTrial, BeginsOnceUpdatesAreSpeculative) {
  HeldPlanner pinner;
  TrialRun run(TrialRun::options(1), /*max_norm=*/1000, nullptr, lend(pinner));
  run.steps(20, fastest_as_forecast);
  EXPECT_EQ(run.n_streamed(), 0u);
  pinner.release();
  run.steps(40, fastest_as_forecast);
  EXPECT_TRUE(run.engine->tuned());
  EXPECT_EQ(run.n_streamed(), kForecast);
  EXPECT_GT(run.engine->rooms().optimizer->states().placement().speculation_bytes, 0u);
  run.expect_bits_of_the_host();
}

/// Values that were written forget the traces for which the held plan was begun.
TEST(ShareTrial, APlacementThatWasPlannedForForgottenTracesIsPlannedAnew) {
  HeldPlanner planner;
  TrialRun run(TrialRun::options(1), 0, lend(planner));
  run.steps(7, fastest_as_forecast);
  for (int i = 0; i < 2; ++i) {
    planner.release();
    run.steps(1, fastest_as_forecast);
  }
  ASSERT_EQ(planner.n_held(), 1u);
  run.write_states_again(0);
  planner.release();
  run.steps(1, fastest_as_forecast);
  EXPECT_EQ(planner.n_held(), 1u);
  run.steps(1, fastest_as_forecast);
  EXPECT_EQ(run.n_streamed(), 0u);
  planner.release();
  run.steps(3, fastest_as_forecast);
  EXPECT_EQ(run.n_streamed(), kForecast);
  run.expect_bits_of_the_host();
}

TEST(ShareTrial, AnEngineMayEndWhileItsPlanIsMade) {
  for (std::uint32_t n_steps = 6; n_steps < 20; ++n_steps) {
    TrialRun run(TrialRun::options(1), n_steps % 2 == 0 ? 1000 : 0, planner_thread);
    run.steps(n_steps, fastest_as_forecast);
  }
}

/// Shares follow one another while the planner's thread works; now and then values are written, which forgets traces,
/// or the model is evaluated.
TEST(ShareTrial, RandomRunsBesideAThreadHaveTheBitsOfTheHost) {
  for (std::uint32_t seed = 0; seed < test::n_seeds(12) && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed + 500);
    TrialRun run(TrialRun::options(1 + seed % 3), seed % 2 == 0 ? 1000 : 0, planner_thread, planner_thread);
    for (int i = 0; i < 60; ++i) {
      run.steps(1 + random() % 3, fastest_as_forecast);
      if (random() % 16 == 0) {
        std::vector<float> master(1024);
        run.engine->read_master(random() % kUnits, master.data()).value();
      }
      if (random() % 24 == 0) run.write_states_again(random() % kUnits);
      if (random() % 8 == 0)
        for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
          run.engine->before_forward(unit).value();
          run.engine->after_forward(unit).value();
        }
    }
    run.expect_bits_of_the_host();
  }
}

TEST(TeamTrial, KeepsTheFastestNumberOfThreads) {
  EngineOptions options = TrialRun::options(8);
  options.stream_optim_frac = 0;
  TrialRun run(options);
  const auto limits = [&run] { return run.rig.team.limits; };
  // Of a backward pass its limit, and then all threads again.
  run.steps(40, [&limits](std::uint32_t) {
    return limits().size() < 2 ? 100 : limits()[limits().size() - 2] == 6 ? 80 : 100;
  });
  EXPECT_EQ(run.sentence(kThreads), "6 of 8 threads update during backward: 0.080 s a step instead of 0.100");
  EXPECT_EQ(limits()[limits().size() - 2], 6u);
  EXPECT_EQ(limits().back(), 8u);
  run.expect_bits_of_the_host();
}

TEST(TeamTrial, KeepsAllWhereFewerAreNoFaster) {
  EngineOptions options = TrialRun::options(8);
  options.stream_optim_frac = 0;
  TrialRun run(options);
  run.steps(40, [](std::uint32_t) { return 100; });
  EXPECT_NE(std::find(run.rig.team.limits.begin(), run.rig.team.limits.end(), 6u), run.rig.team.limits.end());
  EXPECT_EQ(run.rig.team.limits[run.rig.team.limits.size() - 2], 8u);
  EXPECT_EQ(run.sentence(kThreads), "");
  run.expect_bits_of_the_host();
}

}  // namespace
}  // namespace castor
