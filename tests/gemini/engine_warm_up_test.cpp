// SPDX-License-Identifier: Apache-2.0
// What the engine does on a GPU alone, on a fake one: the warm-up, the capacity, pages, and activations that become
// chunks.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include <castor/states/model_chunks.h>

#include "gpu_rig.h"
#include "placer.h"
#include "scratch_folder.h"
#include "scripted_training.h"
#include "seeds.h"
#include "small_training.h"

namespace castor {
namespace {

using test::GpuRig;
using test::ScriptedTraining;
using test::SmallTraining;

bool logged(const test::FakeModelHost& host, const std::string& sentence) {
  return std::count(host.calls().begin(), host.calls().end(), sentence) > 0;
}

// ---- the limits that the placer sets ----

/// The rooms of an engine on a fake GPU, without its calls.
class PlacerOnGpu : public ::testing::Test {
 protected:
  void make(EngineOptions options) {
    host_->allocate_from(rig_.allocator);
    rooms_ = EngineRooms::make(*host_, options, rig_.machine()).value();
    placer_ = std::make_unique<Placer>(*rooms_);
  }
  std::uint64_t limit_bytes() const { return rooms_->memory->device_chunks().limit_bytes(); }
  /// A warm-up in which the device held so much beside chunks.
  void warm_up(std::uint64_t activation_bytes) {
    rooms_->watch.begin_unit({MomentKind::forward, 0});
    rooms_->watch.chunks_arrived();
    rig_.allocator.hold(activation_bytes);
    rig_.allocator.let_go(activation_bytes);
    rooms_->watch.end_step();
  }

  const SmallTraining training_;
  GpuRig rig_;
  const std::unique_ptr<test::FakeModelHost> host_ = training_.make_host(GpuRig::kWhere);
  std::unique_ptr<EngineRooms> rooms_;
  std::unique_ptr<Placer> placer_;
};

TEST_F(PlacerOnGpu, TheWarmUpHasRoomForTwiceTheLargestUnitAndAChunk) {
  EngineOptions options = training_.options();
  options.device_budget_bytes = kGiB;
  make(options);
  placer_->place_first().value();
  EXPECT_EQ(limit_bytes(), 2 * 8 * kKiB + 32 * kMiB);
  EXPECT_EQ(rooms_->optimizer->states().placement().device_bytes, 0u) << "no states";
}

TEST_F(PlacerOnGpu, TheWarmUpKeepsToTheBudget) {
  EngineOptions options = training_.options();
  options.device_budget_bytes = 256 * kKiB;
  make(options);
  placer_->place_first().value();
  EXPECT_EQ(limit_bytes(), 256 * kKiB);
}

/// Of small budgets a quarter is left to the allocator.
TEST_F(PlacerOnGpu, TheMeasuredRoomIsTheBudgetWithoutActivationsAndTheAllocatorsPart) {
  EngineOptions options = training_.options();
  options.device_budget_bytes = 256 * kKiB;
  make(options);
  placer_->place_first().value();
  warm_up(20 * kKiB);
  placer_->place_in_measured_room().value();
  EXPECT_EQ(limit_bytes(), (256 - 20 - 64) * kKiB);
  // Of that 32 KiB are weights; 40 KiB of states and 8 KiB of gradients a chunk fit twice.
  EXPECT_EQ(rooms_->optimizer->states().placement().device_bytes, 2 * 48 * kKiB);
}

/// 264 KiB less 66 for the allocator, 20 of activations and 32 of weights leave 146. States and one gradient of a unit
/// take 48 KiB; with a sum in its place they take 56, and 16 once while gradients arrive.
TEST_F(PlacerOnGpu, TheMeasuredRoomHoldsTheSumsOfGradientsThatTheWarmUpAddedUp) {
  for (const bool told : {false, true})
    for (const bool adds_up : {false, true}) {
      EngineOptions options = training_.options();
      options.device_budget_bytes = 264 * kKiB;
      options.accumulate_gradients = told;
      make(options);
      placer_->place_first().value();
      warm_up(20 * kKiB);
      const std::vector<std::uint16_t> gradient(4096);
      for (int i = 0; i < (adds_up ? 2 : 1); ++i)
        rooms_->optimizer->gradients().store().add(TensorId{0}, {gradient.data(), {}}).value();
      rooms_->optimizer->gradients().store().clear(rooms_->layout.tensors[TensorId{0}].chunk).value();
      placer_->place_in_measured_room().value();
      EXPECT_EQ(rooms_->optimizer->states().placement().device_bytes, (told || adds_up ? 2 * 56 + 16 : 3 * 48) * kKiB)
          << told << adds_up;
      placer_.reset(), rooms_.reset();
    }
}

TEST_F(PlacerOnGpu, ManyActivationsLeaveTheLargestUnit) {
  EngineOptions options = training_.options();
  options.device_budget_bytes = 256 * kKiB;
  make(options);
  placer_->place_first().value();
  warm_up(190 * kKiB);
  const auto placed = placer_->place_in_measured_room();
  ASSERT_FALSE(placed.ok()) << "beside 190 KiB and the allocator's 64 KiB there are 2 KiB";
  EXPECT_EQ(placed.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(placed.error().message.find("beside 254 KiB of activations and workspaces"), std::string::npos)
      << placed.error().message;
  EXPECT_EQ(limit_bytes(), 8 * kKiB);
}

TEST_F(PlacerOnGpu, AConstantPartIsNotMeasured) {
  EngineOptions options = training_.options();
  options.placement_policy = PlacementPolicy::constant;
  options.const_device_bytes = 100 * kKiB;
  make(options);
  placer_->place_first().value();
  EXPECT_EQ(limit_bytes(), 100 * kKiB);
  EXPECT_FALSE(rooms_->measures());
  EXPECT_EQ(rooms_->optimizer->states().placement().device_bytes, 48 * kKiB);
}

TEST_F(PlacerOnGpu, RoomForAnActivationGrowsInTheWarmUpAlone) {
  EngineOptions options = training_.options();
  options.device_budget_bytes = 128 * kMiB;
  make(options);
  placer_->place_first().value();
  const auto has_room = [this](std::uint64_t n_bytes, bool warming_up) {
    if (warming_up) placer_->make_room_for_activation(n_bytes);
    return placer_->has_room_for_activation(n_bytes);
  };
  EXPECT_TRUE(has_room(8 * kMiB, true));
  EXPECT_EQ(limit_bytes(), 2 * 8 * kKiB + 32 * kMiB) << "that has room already";
  EXPECT_TRUE(has_room(20 * kMiB, true));
  EXPECT_EQ(limit_bytes(), 2 * (8 * kKiB + 20 * kMiB));
  EXPECT_FALSE(has_room(64 * kMiB, true)) << "twice that is more than the budget";
  EXPECT_FALSE(has_room(21 * kMiB, false));
  EXPECT_EQ(limit_bytes(), 2 * (8 * kKiB + 20 * kMiB));
}

// ---- the capacity ----

TEST_F(PlacerOnGpu, ABudgetAboveTheCapacityIsCutAndWarnedOf) {
  rig_.others_bytes = 4 * kGiB - 64 * kMiB;
  rig_.allocator.hold(8 * kMiB);
  EngineOptions options = training_.options();
  options.device_budget_bytes = 80 * kMiB;
  make(options);
  EXPECT_EQ(rooms_->options.device_budget_bytes, 0u) << "of 64 MiB libraries may take a 64th of 4 GiB";
  EXPECT_TRUE(logged(*host_,
                     "`device_budget` 80.0 MiB is more than the 0 B that the GPU can give now; it is taken as "
                     "that"))
      << host_->calls().back();
}

TEST(CapacityOfAGpu, ABudgetAboveItIsCutAndWarnedOfWithTheNumbers) {
  const SmallTraining training;
  GpuRig rig(64 * kMiB);
  rig.others_bytes = 16 * kMiB;
  rig.allocator.hold(8 * kMiB);
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  EngineOptions options = training.options();
  options.device_budget_bytes = 60 * kMiB;
  const auto engine = Engine::make(*host, options, rig.machine()).value();
  EXPECT_EQ(engine->stats().value().budget_bytes[0], 47 * kMiB) << "64 MiB less 16 of others and a 64th";
  EXPECT_TRUE(logged(*host,
                     "`device_budget` 60.0 MiB is more than the 47.0 MiB that the GPU can give now; it is taken "
                     "as that"))
      << host->calls().back();
}

TEST(CapacityOfAGpu, NoBudgetIsTheCapacityWithoutAWord) {
  const SmallTraining training;
  GpuRig rig(64 * kMiB);
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  const auto engine = Engine::make(*host, training.options(), rig.machine()).value();
  EXPECT_EQ(engine->stats().value().budget_bytes[0], 63 * kMiB);
  EXPECT_TRUE(host->calls().empty());
}

// ---- the whole run ----

/// A run of SmallTraining on a fake GPU, in which every unit holds activations while it computes.
struct GpuRun {
  explicit GpuRun(const EngineOptions& options, std::uint64_t activations = 20 * kKiB, std::uint64_t page_bytes = 0)
      : activation_bytes(activations) {
    if (page_bytes > 0) rig.pages.emplace(page_bytes);
    host->allocate_from(rig.allocator);
    engine = Engine::make(*host, options, rig.machine()).value();
    engine->attach().value();
  }
  void steps(std::uint32_t first, std::uint32_t end) {
    training
        .run(*engine, *host, first, end,
             [this](std::uint32_t) {
               rig.allocator.hold(activation_bytes);
               most_bytes = std::max(most_bytes, rig.allocator.allocated_bytes());
               rig.allocator.let_go(activation_bytes);
             })
        .value();
  }

  /// A step with a loss scale, no activations and an overflow in the gradient of unit 0.
  void skipped_step(std::uint32_t step) {
    castor_step_args args = training.step_args();
    args.loss_scale = 8;
    for (const SmallTraining::Call& call : training.calls(*engine, *host, step)) {
      if (call.name == "announce_step") {
        engine->announce_step(args).value();
      } else if (call.name == "gradient 0") {
        std::vector<float> values(4096, 1);
        values.back() = std::numeric_limits<float>::infinity();
        engine->gradient(0, host->make_gradient(0, values)).value();
      } else if (call.name == "step") {
        EXPECT_EQ(engine->step(args).value().skipped, 1);
      } else {
        call.make().value();
      }
    }
  }

  const SmallTraining training;
  GpuRig rig;
  const std::uint64_t activation_bytes;
  const std::unique_ptr<test::FakeModelHost> host = training.make_host(GpuRig::kWhere);
  std::unique_ptr<Engine> engine;
  std::uint64_t most_bytes = 0;  ///< that the device held while a unit computed
};

/// Four steps on a device of 256 KiB, the first of which is the warm-up.
void expect_warm_up(GpuRun& run) {
  run.steps(0, 1);
  EXPECT_EQ(run.most_bytes, (32 + 20) * kKiB) << "all weights fit; states are on the host";
  run.steps(1, 4);
  EXPECT_GE(run.rig.allocator.allocated_bytes(), (32 + 2 * 40) * kKiB) << "and the states of two units";
  EXPECT_LE(run.most_bytes, (256 - 64) * kKiB);
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(4));
}

TEST(WarmUpOnAGpu, HoldsTheWeightsAloneAndThenTheStatesThatFit) {
  EngineOptions options = SmallTraining().options();
  options.device_budget_bytes = 256 * kKiB;
  GpuRun run(options);
  expect_warm_up(run);
  run.engine.reset();
  EXPECT_EQ(run.rig.allocator.n_live(), 0);
  EXPECT_EQ(run.host->n_live_gradients(), 0);
}

TEST(WarmUpOnAGpu, SaysWhatToRaiseWhereTheModelsTensorsLeaveNoRoom) {
  const SmallTraining training;
  GpuRig rig(64 * kMiB);
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  EngineOptions options = training.options();
  options.device_budget_bytes = 256 * kKiB;  // and the model's tensors take 64 MiB
  const auto engine = Engine::make(*host, options, rig.machine()).value();
  rig.allocator.hold(rig.allocator.total_bytes() - rig.allocator.allocated_bytes());
  auto trained = engine->attach();
  if (trained.ok()) trained = training.run(*engine, *host, 0, 1);
  ASSERT_FALSE(trained.ok());
  EXPECT_EQ(trained.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(trained.error().shortage->needed_bytes, (64 + 2 + 20) * kMiB) << "with a block and a segment of torch";
  EXPECT_NE(trained.error().message.find("the budget of 256 KiB; raise `device_budget` to 86.0 MiB"), std::string::npos)
      << trained.error().message;
}

TEST(WarmUpOnAGpu, KeepsAllStatesWhereAllFit) {
  GpuRun run(SmallTraining().options());
  run.steps(0, 3);
  EXPECT_GE(run.rig.allocator.allocated_bytes(), (32 + 4 * 40) * kKiB);
  const castor_stats before = run.engine->stats().value();
  run.steps(3, 5);
  EXPECT_EQ(run.engine->stats().value().h2d_bytes, before.h2d_bytes) << "nothing moves any more";
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(5));
}

/// A step before any pass, which has no gradients.
TEST(WarmUpOnAGpu, IsRepeatedAfterAStepOfNothing) {
  EngineOptions options = SmallTraining().options();
  options.device_budget_bytes = 256 * kKiB;
  GpuRun run(options);
  run.engine->step(run.training.step_args()).value();
  expect_warm_up(run);
}

/// Steps that were skipped held few activations; the device has room for those of the later ones.
TEST(WarmUpOnAGpu, IsRepeatedAfterSkippedSteps) {
  EngineOptions options = SmallTraining().options();
  options.device_budget_bytes = 256 * kKiB;
  GpuRun run(options);
  run.skipped_step(0), run.skipped_step(1);
  expect_warm_up(run);
}

TEST(WarmUpOnAGpu, ReportsTheAllocatorsFigures) {
  GpuRun run(SmallTraining().options());
  run.steps(0, 2);
  const castor_stats stats = run.engine->stats().value();
  EXPECT_EQ(stats.used_bytes[0], run.rig.allocator.reserved_bytes());
  EXPECT_EQ(stats.peak_bytes[0], run.rig.allocator.reserved_bytes());
}

bool same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), 4 * a[i].size()) != 0) return false;
  return true;
}

/// Random models, gradients, micro-batches and budgets, on the fake GPU and on the host.
TEST(WarmUpOnAGpu, RandomTrainingsHaveTheBitsOfTheHost) {
  int n_ran = 0, n_seeds = static_cast<int>(test::n_seeds(60));
  for (int seed = 0; seed < n_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed + 4000);
    const ScriptedTraining training(seed,
                                    {.evaluates = seed % 5 == 0, .announces = seed % 2 == 0, .reads = seed % 3 == 1});
    GpuRig rig;
    if (seed % 3 == 0) rig.pages.emplace(512);
    rig.team.job_ns = random() % 2'000'000;
    EngineOptions options;
    options.update_threads = 1 + random() % 4;
    options.chunk_bytes = 512 + random() % 8192;
    options.format.split_master = seed % 4 != 0;
    options.device_budget_bytes =
        2 * training.largest_unit_bytes() + 4 * kKiB + random() % (20 * training.payload_bytes());
    const std::uint64_t most_activations = 1 + random() % kKiB;

    const auto host = training.make_host(GpuRig::kWhere);
    host->allocate_from(rig.allocator);
    const auto engine = Engine::make(*host, options, rig.machine()).value();
    engine->attach().value();
    ScriptedTraining::Stretch stretch;
    stretch.computes = [&](std::uint32_t unit) {
      const std::uint64_t n_bytes = (unit + 1) * 977 % most_activations;
      rig.allocator.hold(n_bytes);
      rig.allocator.let_go(n_bytes);
      rig.clock.advance(1'000'000);
    };
    const auto found = training.run(*engine, *host, stretch);
    if (!found.ok()) {
      EXPECT_EQ(found.error().kind, ErrorKind::does_not_fit) << found.error().message;
      continue;
    }
    ++n_ran;
    const auto cpu_host = training.make_host({kDLCPU, 0});
    options.device_budget_bytes = Budget::kUnlimited;
    const auto on_cpu = Engine::make(*cpu_host, options).value();
    on_cpu->attach().value();
    const auto expected = training.run(*on_cpu, *cpu_host, {}).value();
    EXPECT_TRUE(same(found->weights_seen, expected.weights_seen)) << "weights at some use";
    EXPECT_TRUE(same(found->masters, expected.masters)) << "masters at the end";
    EXPECT_EQ(found->grad_norms, expected.grad_norms);
    EXPECT_EQ(found->skipped, expected.skipped);
  }
  EXPECT_GT(n_ran, n_seeds / 2) << "most draws should fit";
}

// ---- with less room than all gradients of a step need ----

/// Steps `first` to before `end` of three micro-batches each.
Result<void> accumulate(const SmallTraining& training, Strategy& strategy, test::FakeModelHost& host,
                        std::uint32_t first, std::uint32_t end,
                        const std::function<void(std::uint32_t unit)>& computes = nullptr) {
  constexpr std::uint32_t kMicroBatches = 3;
  for (std::uint32_t i = first * kMicroBatches; i < end * kMicroBatches; ++i) {
    const bool is_last = i % kMicroBatches == kMicroBatches - 1;
    CASTOR_TRY(is_last ? training.run(strategy, host, i, i + 1, computes)
                       : training.run_micro_batch(strategy, host, i, computes));
  }
  return {};
}

/// 320 KiB of states and 64 of gradients fit on the host of 430, but not 128 of sums in place of these.
TEST(WarmUpOnAGpu, PlacesForSumsOfGradientsAfterTheFirstMicroBatch) {
  const SmallTraining training{{.n_units = 8}};
  EngineOptions options = training.options();
  options.accumulate_gradients = true;
  const auto plain_host = training.make_host();
  const auto plain = Engine::make(*plain_host, options).value();
  plain->attach().value();
  accumulate(training, *plain, *plain_host, 0, 4).value();

  options.device_budget_bytes = 512 * kKiB;
  options.host_budget_bytes = 430 * kKiB;
  GpuRig rig;
  const auto host = training.make_host(GpuRig::kWhere);
  host->allocate_from(rig.allocator);
  const auto engine = Engine::make(*host, options, rig.machine()).value();
  engine->attach().value();
  std::uint64_t activation_bytes = 4 * kKiB;
  const auto computes = [&](std::uint32_t) {
    rig.allocator.hold(activation_bytes);
    EXPECT_LE(rig.allocator.allocated_bytes(), 512 * kKiB);
    rig.allocator.let_go(activation_bytes);
  };
  training.run_micro_batch(*engine, *host, 0, computes).value();
  engine->discard_gradients().value();  // a trial with a smaller batch, which counts for nothing
  activation_bytes = 100 * kKiB;
  accumulate(training, *engine, *host, 0, 4, computes).value();
  EXPECT_EQ(training.masters(*engine).value(), training.masters(*plain).value());
}

/// 32 units of 32 KiB, with 160 of states and 32 of gradients each, are 7 MiB; the tiers have 6.94.
struct TightRun {
  TightRun() {
    EngineOptions options = training.options();
    options.device_budget_bytes = 128 * kKiB;
    options.host_budget_bytes = 2 * kMiB;
    options.nvme_budget_bytes = 4928 * kKiB;
    options.nvme_folders = {folder.path()};
    engine = Engine::make(*host, options).value();
    engine->attach().value();
  }

  const SmallTraining training{{.n_units = 32, .numel = 16384}};
  const test::ScratchFolder folder;
  const std::unique_ptr<test::FakeModelHost> host = training.make_host();
  std::unique_ptr<Engine> engine;
};

TEST(TightWarmUp, MakesUpdatesEarly) {
  TightRun run;
  run.training.run(*run.engine, *run.host, 0, 3).value();
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(3));
}

TEST(TightWarmUp, OfAModelThatNeedsAllGradientsSaysWhatToRaise) {
  TightRun run;
  for (const SmallTraining::Call& call : run.training.calls(*run.engine, *run.host, 0)) {
    call.make().value();
    if (call.name == "after_backward 20") break;
  }
  const auto again = run.engine->before_backward(22);
  ASSERT_FALSE(again.ok()) << "its gradients are gone";
  EXPECT_EQ(again.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(again.error().message.find("raise `nvme_budget` or `host_budget`"), std::string::npos)
      << again.error().message;
}

// ---- pages ----

TEST(PagesOnAGpu, ChunksLieInThemAndTheAllocatorIsLimitedToTheRest) {
  EngineOptions options = SmallTraining().options();
  options.device_budget_bytes = 256 * kKiB;
  GpuRun run(options, 20 * kKiB, /*page_bytes=*/4 * kKiB);
  run.steps(0, 1);
  EXPECT_EQ(run.most_bytes, 20 * kKiB) << "the activations alone";
  const std::uint64_t room_bytes = run.engine->stats().value().budget_bytes[0] - run.rig.allocator.limit_bytes();
  EXPECT_EQ(room_bytes, (256 - 20 - 32) * kKiB)
      << "a 16th of the budget's activations, or an eighth of the budget, is left";
  run.steps(1, 4);
  EXPECT_GT(run.rig.pages->held_bytes(), (32 + 2 * 40) * kKiB) << "all weights, and the states of two units";
  EXPECT_LE(run.rig.pages->most_bytes(), room_bytes);
  EXPECT_LE(run.engine->stats().value().peak_bytes[0], 256 * kKiB);
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(4));
  run.engine.reset();
  EXPECT_EQ(run.rig.pages->held_bytes(), 0u);
  EXPECT_EQ(run.rig.allocator.n_live(), 0);
}

TEST(PagesOnAGpu, SmallChunksNeedNone) {
  EngineOptions options = SmallTraining().options();
  options.device_budget_bytes = 8 * kMiB;
  GpuRun run(options, 20 * kKiB, /*page_bytes=*/2 * kMiB);
  run.steps(0, 3);
  EXPECT_EQ(run.rig.pages->most_bytes(), 0u);
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(3));
}

// ---- activations as chunks ----

EngineOptions with_activations(std::uint64_t device_budget_bytes) {
  EngineOptions options = SmallTraining().options();
  options.offload_activations = true;
  options.device_budget_bytes = device_budget_bytes;
  return options;
}

/// Two steps, each of which keeps an activation in unit 0's forward pass and recalls it in its backward pass.
TEST(ActivationsOnAGpu, AreKeptRecalledAndForgotten) {
  constexpr std::uint64_t kBytes = 20 * kMiB;
  std::vector<unsigned char> activation(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) activation[i] = static_cast<unsigned char>(i * 7 / 3);
  GpuRun run(with_activations(256 * kMiB), 0);
  for (int step = 0; step < 3; ++step) {
    std::uint32_t kept = 0;
    for (const SmallTraining::Call& call : run.training.calls(*run.engine, *run.host, step)) {
      if (call.name == "after_forward 0") {
        kept = run.engine->activations().keep(activation.data(), kBytes).value();
        ASSERT_NE(kept, 0u) << "the warm-up makes room";
      }
      if (call.name == "gradient 0") {
        EXPECT_EQ(std::memcmp(run.engine->activations().recall(kept).value(), activation.data(), kBytes), 0);
      }
      if (call.name == "after_backward 0") run.engine->activations().forget(kept).value();
      call.make().value();
    }
  }
  EXPECT_EQ(run.training.masters(*run.engine).value(), run.training.expected(3));
  run.engine.reset();
  EXPECT_EQ(run.rig.allocator.n_live(), 0);
}

/// The room for two activations would be more than the budget.
TEST(ActivationsOnAGpu, AreLeftToTheHostWhereTheBudgetIsTooSmall) {
  const std::vector<unsigned char> activation(20 * kMiB);
  GpuRun run(with_activations(40 * kMiB), 0);
  run.engine->before_forward(0).value();
  EXPECT_EQ(run.engine->activations().keep(activation.data(), activation.size()).value(), 0u);
  EXPECT_NE(run.engine->activations().keep(activation.data(), kMiB).value(), 0u);
}

}  // namespace
}  // namespace castor
