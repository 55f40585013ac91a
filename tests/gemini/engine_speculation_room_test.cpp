// SPDX-License-Identifier: Apache-2.0
// Host memory of speculative updates that is taken beside the steps, on a fake GPU.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <castor/memory/host_resource.h>

#include "engine_rooms.h"
#include "gpu_rig.h"
#include "held_planner.h"
#include "small_training.h"

namespace castor {
namespace {

using test::GpuRig;
using test::HeldPlanner;
using test::lend;
using test::planner_thread;
using test::SmallTraining;

using MakePlanner = decltype(Machine::make_planner);

/// Second weights and states of all units of a ClippedRun.
constexpr std::uint64_t kRoomBytes = 8 * 1024 * 12;

/// Host memory of which at most `limit_bytes` are given at once.
class ScarceMemory final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override {
    if (live_bytes_ + n_bytes > limit_bytes) return Error{ErrorKind::does_not_fit, "the machine has no more"};
    live_bytes_ += n_bytes;
    return memory_.allocate(n_bytes);
  }
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override {
    live_bytes_ -= n_bytes;
    memory_.deallocate(data, n_bytes);
  }
  std::uint64_t live_bytes() const { return live_bytes_; }

  std::atomic<std::uint64_t> limit_bytes = Budget::kUnlimited;

 private:
  HostResource memory_;
  std::atomic<std::uint64_t> live_bytes_ = 0;
};

/// A thread that is slow to begin.
class SlowThread final : public Planner {
 public:
  Event run(WorkerThread::Task task) override {
    return worker_.run([task = std::move(task)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return task();
    });
  }

 private:
  WorkerThread worker_;
};

/// A training with a norm, whose states are on the host, or of the first unit at home on a device of
/// `device_budget_bytes`.
class ClippedRun {
 public:
  explicit ClippedRun(MakePlanner make_pinner, double max_norm = 1000, MakePlanner make_planner = nullptr,
                      std::uint64_t host_budget_bytes = Budget::kUnlimited, std::chrono::nanoseconds patience = {},
                      std::uint64_t device_budget_bytes = Budget::kUnlimited)
      : training({.n_units = 8, .numel = 1024, .max_norm = max_norm}) {
    rig.host_memory = &memory;
    rig.make_pinner = std::move(make_pinner);
    rig.make_planner = std::move(make_planner);
    rig.pin_patience = patience;
    EngineOptions options = training.options();
    if (device_budget_bytes == Budget::kUnlimited) options.placement_policy = PlacementPolicy::cpu;
    options.device_budget_bytes = device_budget_bytes;
    options.stream_optim_frac = 0;
    options.host_budget_bytes = host_budget_bytes;
    host->allocate_from(rig.allocator);
    engine = Engine::make(*host, options, rig.machine()).value();
    engine->attach().value();
  }
  void steps(std::uint32_t n) {
    const auto computes = [this](std::uint32_t) { rig.clock.advance(1'000'000); };
    training.run(*engine, *host, n_steps_, n_steps_ + n, computes).value();
    n_steps_ += n;
  }
  std::uint64_t speculation_bytes() const { return engine->rooms().optimizer->states().placement().speculation_bytes; }
  bool planned() const { return engine->rooms().scheduler->plan() != nullptr; }
  /// The iteration that ended last, or is expected next, updates chunks before its norm.
  bool speculated() const {
    const AccessTrace& trace = engine->rooms().scheduler->trace();
    for (std::uint64_t m = 0; m < trace.n_moments(); ++m) {
      if (trace.moment(m).kind == MomentKind::norm) return false;
      if (trace.moment(m).kind == MomentKind::update) return true;
    }
    return false;
  }
  Budget& host_budget() { return engine->rooms().memory->host_budget(); }
  bool logged(const std::string& part) const {
    const auto calls = host->calls();
    return std::any_of(calls.begin(), calls.end(),
                       [&](const std::string& call) { return call.find(part) != std::string::npos; });
  }
  void expect_bits_of_the_host() const { EXPECT_EQ(training.masters(*engine).value(), training.expected(n_steps_)); }

  const SmallTraining training;
  ScarceMemory memory;
  GpuRig rig;
  const std::unique_ptr<test::FakeModelHost> host = training.make_host(GpuRig::kWhere);
  std::unique_ptr<Engine> engine;

 private:
  std::uint32_t n_steps_ = 0;
};

constexpr const char* kAsked = "96.0 KiB more of the host are taken, once, for updates that begin before the norm";
constexpr const char* kGivenUp = "no update begins before the norm of the gradients is known";

TEST(SpeculationRoom, StepsGoOnWithoutSpeculationUntilTheMemoryIsThere) {
  HeldPlanner pinner;
  ClippedRun run(lend(pinner));
  run.steps(4);
  ASSERT_EQ(pinner.n_held(), 1u);
  EXPECT_TRUE(run.logged(kAsked));
  const std::uint64_t without_bytes = run.host_budget().peak_bytes();
  run.steps(6);
  EXPECT_EQ(run.speculation_bytes(), 0u);
  EXPECT_FALSE(run.speculated());
  EXPECT_TRUE(run.planned());
  EXPECT_EQ(run.host_budget().peak_bytes(), without_bytes);
  EXPECT_FALSE(run.engine->tuned());

  pinner.release();
  EXPECT_EQ(run.host_budget().used_bytes(), without_bytes + kRoomBytes);
  for (int i = 0; i < 6; ++i) {
    run.steps(1);
    EXPECT_EQ(run.speculation_bytes(), kRoomBytes);
    EXPECT_TRUE(run.speculated()) << "step " << i;
    EXPECT_TRUE(run.planned()) << "step " << i;
  }
  EXPECT_EQ(run.host_budget().peak_bytes(), without_bytes + kRoomBytes) << "no step took any more";
  run.expect_bits_of_the_host();
}

TEST(SpeculationRoom, IsNotAskedForWithoutANorm) {
  HeldPlanner pinner;
  ClippedRun run(lend(pinner), 0);
  run.steps(12);
  EXPECT_EQ(pinner.n_held(), 0u);
  EXPECT_TRUE(run.engine->tuned());
  run.expect_bits_of_the_host();
}

TEST(SpeculationRoom, IsKeptUntilAnUpdateWouldBeSpeculative) {
  HeldPlanner pinner;
  ClippedRun run(lend(pinner), 1e-6);
  run.steps(1);
  ASSERT_EQ(pinner.n_held(), 1u) << "asked for after the first step";
  pinner.release();
  run.steps(12);
  EXPECT_EQ(run.speculation_bytes(), 0u);
  EXPECT_FALSE(run.speculated());
  EXPECT_TRUE(run.planned());
  EXPECT_TRUE(run.engine->tuned()) << "nothing waits for it";
  run.expect_bits_of_the_host();
}

/// With patience the second step waits for it, and no later one.
TEST(SpeculationRoom, TheSecondStepWaitsForIt) {
  ClippedRun run([](const Device&) { return std::make_unique<SlowThread>(); }, 1000, planner_thread, Budget::kUnlimited,
                 std::chrono::minutes(1));
  run.steps(1);
  const std::uint64_t before_bytes = run.host_budget().used_bytes();
  run.steps(1);
  EXPECT_GE(run.host_budget().used_bytes(), before_bytes + kRoomBytes);
  for (int i = 0; i < 1000 && !run.engine->tuned(); ++i) run.steps(1);
  EXPECT_EQ(run.speculation_bytes(), kRoomBytes);
  run.expect_bits_of_the_host();
}

/// In the first step the states of every unit are on the host. A reserve would be taken for those that are at home on the
/// device until they leave.
TEST(SpeculationRoom, IsAskedForWhenStatesHaveReachedTheDevice) {
  HeldPlanner pinner;
  ClippedRun run(lend(pinner), 1000, nullptr, Budget::kUnlimited, {}, 24 * kKiB);
  const auto first_on_host = [&run] {
    const EngineRooms& rooms = run.engine->rooms();
    return rooms.chunks->chunk(rooms.optimizer->states().state(PayloadId{0}, TileId{0})).resident(Tier::host);
  };
  run.steps(1);
  EXPECT_TRUE(first_on_host());
  EXPECT_EQ(pinner.n_held(), 0u);
  int n_steps = 1;
  for (; pinner.n_held() == 0 && n_steps < 10; ++n_steps) run.steps(1);
  EXPECT_LE(n_steps, 3);
  EXPECT_FALSE(first_on_host());
  pinner.release();
  run.steps(8);
  EXPECT_EQ(run.speculation_bytes(), kRoomBytes * 7 / 8) << "of the other units";
  EXPECT_TRUE(run.speculated());
  EXPECT_FALSE(run.logged(kGivenUp));
  run.expect_bits_of_the_host();
}

TEST(SpeculationRoom, WithoutAPinnerUpdatesTakeTheirMemoryThemselves) {
  ClippedRun run(nullptr);
  run.steps(4);
  EXPECT_EQ(run.speculation_bytes(), kRoomBytes);
  EXPECT_TRUE(run.speculated());
  run.expect_bits_of_the_host();
}

TEST(SpeculationRoom, IsGivenUpWhereTheMachineRefusesIt) {
  HeldPlanner pinner;
  ClippedRun run(lend(pinner));
  run.steps(8);
  const std::uint64_t without_bytes = run.memory.live_bytes();
  run.memory.limit_bytes = without_bytes + kRoomBytes / 2;
  pinner.release();
  EXPECT_GT(run.memory.live_bytes(), without_bytes);
  run.memory.limit_bytes = Budget::kUnlimited;
  run.steps(1);
  EXPECT_TRUE(run.logged(kGivenUp));
  pinner.release();
  run.steps(1);
  EXPECT_EQ(run.memory.live_bytes(), without_bytes) << "the part that was taken is given back";
  run.steps(8);
  EXPECT_FALSE(run.speculated());
  EXPECT_TRUE(run.planned());
  EXPECT_TRUE(run.engine->tuned());
  run.expect_bits_of_the_host();
}

/// A request that finds no memory gets the reserve, and the updates wait for the norm.
TEST(SpeculationRoom, IsGivenUpWhereOtherChunksNeedIt) {
  HeldPlanner pinner, planner;
  ClippedRun run(lend(pinner), 1000, lend(planner));
  run.steps(4);
  pinner.release();
  run.steps(1);
  ASSERT_EQ(planner.n_held(), 1u) << "the placement that speculates is being planned";
  run.host_budget().set_limit(run.host_budget().used_bytes());
  MemoryResource& buffers = run.engine->rooms().memory->host_buffers();
  void* const other = buffers.allocate(kRoomBytes).value();
  run.host_budget().set_limit(Budget::kUnlimited);
  planner.release();
  run.steps(1);
  EXPECT_TRUE(run.logged(kGivenUp));
  buffers.deallocate(other, kRoomBytes);
  run.steps(6);
  EXPECT_FALSE(run.speculated());
  run.expect_bits_of_the_host();
}

/// Weights, states and gradients take 112 KiB and a little; a speculative update another 12.
TEST(SpeculationRoom, BudgetsHold) {
  for (std::uint64_t budget_bytes = 116 * kKiB; budget_bytes < 240 * kKiB; budget_bytes += 10 * kKiB) {
    ClippedRun run(planner_thread, 1000, planner_thread, budget_bytes);
    for (int i = 0; i < 200 && !run.engine->tuned(); ++i) run.steps(1);
    run.steps(2);
    EXPECT_LE(run.host_budget().peak_bytes(), budget_bytes);
    EXPECT_EQ(run.speculated(), run.speculation_bytes() > 0);
    run.expect_bits_of_the_host();
  }
}

TEST(SpeculationRoom, AnEngineMayEndWhileItIsTaken) {
  for (std::uint32_t n_steps = 1; n_steps < 8; ++n_steps) {
    ClippedRun run(planner_thread, 1000, planner_thread);
    run.steps(n_steps);
  }
}

/// Values, norms and steps stay those of the host while memory, placement and plans are made on other threads.
TEST(SpeculationRoom, RunsBesideThreadsSettleWithTheBitsOfTheHost) {
  for (int i = 0; i < 5; ++i) {
    ClippedRun run(planner_thread, 1000, planner_thread);
    int n_steps = 0;
    while (n_steps < 1000 && !run.engine->tuned()) run.steps(1), ++n_steps;
    EXPECT_TRUE(run.engine->tuned());
    run.steps(1);
    EXPECT_TRUE(run.speculated());
    run.expect_bits_of_the_host();
  }
}

}  // namespace
}  // namespace castor
