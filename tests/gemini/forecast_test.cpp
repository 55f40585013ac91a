// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/run_forecast.h>

#include <gtest/gtest.h>

#include <castor/memory/bytes.h>

#include "forecast/virtual_device.h"

namespace castor {
namespace {

using Kind = StepCall::Kind;

/// `n_layers` units of one weight in bf16 of `numel` elements each, and a step of forward and backward passes: forward
/// takes `flops`, backward twice that, and the model's tensors take `own_bytes` until the end of backward.
RecordedStep layers(std::uint32_t n_layers, std::int64_t numel, double flops, std::uint64_t own_bytes) {
  RecordedStep step;
  const auto add = [&](Kind kind, std::uint32_t id, double work = 0) {
    step.calls.push_back({{kind, id, 0}, work, own_bytes});
  };
  for (std::uint32_t i = 0; i < n_layers; ++i) {
    step.params.push_back({"layer" + std::to_string(i), {numel}, {kDLBfloat, 16, 1}, CASTOR_PARAM_TRAINABLE});
    step.units.push_back({"unit" + std::to_string(i), {i}});
    add(Kind::forward, i, flops);
    add(Kind::end_forward, i);
  }
  add(Kind::announce, 0);
  for (std::uint32_t i = n_layers; i-- > 0;) {
    add(Kind::backward, i, 2 * flops);
    add(Kind::gradient, i);
    add(Kind::end_backward, i);
  }
  add(Kind::end_of_backward, 0);
  step.calls.back().peak_bytes = 0;
  return step;
}

/// Per second 1e12 operations, 1e9 bytes on each link, and of updates 1e9 bytes on the host and 1e12 on the device.
ForecastMachine round_machine() {
  ForecastMachine machine;
  machine.flops_per_s = 1e12;
  machine.links = {1e-9, 1e-9, 1e-9, 1e-9, 1};
  machine.host_update_bytes_per_s = 1e9, machine.device_update_bytes_per_s = 1e12;
  return machine;
}

castor_step_args adamw() {
  castor_step_args args{};
  args.struct_size = sizeof args;
  args.optimizer = CASTOR_ADAMW;
  args.lr = 1e-3, args.beta1 = 0.9, args.beta2 = 0.99, args.eps = 1e-8, args.loss_scale = 1;
  return args;
}

EngineOptions with_device(std::uint64_t device_bytes) {
  EngineOptions options;
  options.device_budget_bytes = device_bytes;
  options.host_budget_bytes = 64 * kGiB;
  options.format = {.split_master = true};
  options.chunk_bytes = 8 * kMiB;
  return options;
}

constexpr std::int64_t kLayerNumel = 4 << 20;  // 8 MiB of weights

TEST(Forecast, WithEverythingOnTheDeviceAStepComputesAndUpdates) {
  const RecordedStep step = layers(4, kLayerNumel, 1e9, 64 * kMiB);
  const auto found = forecast(step, with_device(8 * kGiB), round_machine(), adamw());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->n_chunks, 4u);
  EXPECT_EQ(found->n_on_device, found->n_chunks);
  EXPECT_EQ(found->non_model_bytes, 64 * kMiB + 4 * 8 * kMiB)
      << "and all gradients on their way: they take 8 ms each, and come every 2 ms";
  const double update_s = 26.0 * 4 * kLayerNumel / 1e12;
  EXPECT_NEAR(found->update_s, update_s, 1e-9);
  EXPECT_NEAR(found->step.step_s, 4 * 3e-3 + update_s, 1e-6);
  EXPECT_EQ(found->step.bound_by, "compute");
  EXPECT_EQ(found->step.moved.h2d + found->step.moved.d2h, 0u);
}

/// A layer's gradient takes 8 ms to leave, and comes every 2 ms: without a bound all 512 MiB of them would be on the
/// device at once.
TEST(Forecast, GradientsThatComeFasterThanTheyLeaveWait) {
  EngineOptions options = with_device(480 * kMiB);
  options.placement_policy = PlacementPolicy::cpu;
  options.stream_optim_frac = 0;
  const auto found = forecast(layers(64, kLayerNumel, 1e9, 64 * kMiB), options, round_machine(), adamw());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_LE(found->non_model_bytes, (64 + 480 / 8 + 8) * kMiB) << "an eighth of the budget, and the gradient at hand";
  EXPECT_LE(found->peak_bytes[index(Tier::device)], 480 * kMiB);
}

TEST(Forecast, UpdatesOnTheHostBindAStepThatComputesLess) {
  EngineOptions options = with_device(1 * kGiB);
  options.placement_policy = PlacementPolicy::cpu;
  options.stream_optim_frac = 0;
  const auto found = forecast(layers(4, kLayerNumel, 1e9, 64 * kMiB), options, round_machine(), adamw());
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->n_on_device, 0u);
  EXPECT_EQ(found->step.bound_by, "host_update");
  const double copied_s = 0.7 * 2 * 4 * 8 * kMiB / 1e9 * found->step.beside_s / found->step.step_s;
  EXPECT_NEAR(found->step.beside_s, 26.0 * 4 * kLayerNumel / 1e9 + copied_s, 1e-3)
      << "and what copies beside them cost";
  EXPECT_NEAR(found->step.bound_s, found->step.beside_s, 1e-9);
  EXPECT_GE(found->step.step_s, found->step.bound_s);
  EXPECT_EQ(found->step.moved.d2h, 4u * 8 * kMiB) << "gradients";
  EXPECT_EQ(found->step.moved.h2d, 4u * 8 * kMiB) << "weights";
  EXPECT_EQ(found->peak_bytes[index(Tier::nvme)], 0u);
}

TEST(Forecast, StreamsStatesWhereThatMakesStepsShorter) {
  EngineOptions options = with_device(1 * kGiB);
  options.placement_policy = PlacementPolicy::cpu;
  ForecastMachine machine = round_machine();
  machine.links.h2d = machine.links.d2h = 1e-10;
  const RecordedStep step = layers(16, kLayerNumel, 1e9, 64 * kMiB);
  options.stream_optim_frac = 0;
  const double without_s = forecast(step, options, machine, adamw()).value().step.step_s;
  options.stream_optim_frac.reset();
  const Forecast found = forecast(step, options, machine, adamw()).value();
  EXPECT_GT(found.n_streamed, 0u);
  EXPECT_LT(found.step.step_s, 0.9 * without_s);
}

TEST(Forecast, NvmeHoldsTheStatesThatTheOptionsKeepThere) {
  EngineOptions options = with_device(1 * kGiB);
  options.host_budget_bytes = 128 * kMiB;
  options.placement_policy = PlacementPolicy::cpu;
  options.stream_optim_frac = 0;
  options.nvme_offload_fraction = 1;
  options.nvme_folders = {"a folder that is never looked for"};
  ForecastMachine machine = round_machine();
  machine.links.nvme_read = machine.links.nvme_write = 1e-8;
  const Forecast found = forecast(layers(4, kLayerNumel, 1e9, 64 * kMiB), options, machine, adamw()).value();
  constexpr std::uint64_t kStateBytes = 4 * 10 * kLayerNumel;
  const auto& moved = found.step.moved;
  EXPECT_GE(moved.nvme_read, kStateBytes - 128 * kMiB) << "the host keeps at most its budget";
  EXPECT_LE(moved.nvme_read, kStateBytes + 4 * 10 * 512) << "each state once, in parts that are padded";
  EXPECT_GT(moved.nvme_write, 0u);
  EXPECT_GE(found.peak_bytes[index(Tier::nvme)], kStateBytes);
  EXPECT_LE(found.peak_bytes[index(Tier::host)], 128 * kMiB);
  EXPECT_EQ(found.step.bound_by, "nvme");
  EXPECT_NEAR(found.step.bound_s, 1e-8 * static_cast<double>(moved.nvme_read + moved.nvme_write), 1e-9)
      << "the drive takes turns";
}

TEST(Forecast, ABudgetThatIsTooSmallIsRefusedWithOneThatWouldDo) {
  const RecordedStep step = layers(4, kLayerNumel, 1e9, 64 * kMiB);
  const auto refused = forecast(step, with_device(80 * kMiB), round_machine(), adamw());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
}

TEST(Forecast, OnTheHostTheDeviceBudgetHoldsChunksAlone) {
  ForecastMachine machine = round_machine();
  machine.kind = DeviceKind::cpu;
  const Forecast found =
      forecast(layers(4, kLayerNumel, 1e9, 64 * kMiB), with_device(16 * kMiB), machine, adamw()).value();
  EXPECT_EQ(found.peak_bytes[index(Tier::device)], 16 * kMiB);
  EXPECT_EQ(found.non_model_bytes, 64 * kMiB);
}

/// Bytes per second as of round_machine; the rig's streams are the one up and the one down.
TEST(VirtualRig, CopiesSlowUpdatesDownAsFarAsTheyRanBesideThem) {
  VirtualRig rig(round_machine());
  Machine parts = rig.parts(false);
  const auto team = parts.make_team(1, 0).value();
  const auto update_s = [&] {
    const double begin_s = rig.now_s();
    team->add({.n_parts = 1, .run = {}, .touched_bytes = 1'000'000'000}).wait().value();
    return rig.now_s() - begin_s;
  };
  const auto end_step = [&](double step_s, double beside_s, std::uint64_t h2d_bytes, std::uint64_t d2h_bytes) {
    StepEstimate step;
    step.step_s = step_s, step.beside_s = beside_s;
    step.moved.h2d = h2d_bytes, step.moved.d2h = d2h_bytes;
    rig.end_step(step);
  };
  EXPECT_NEAR(update_s(), 1, 1e-6);
  end_step(2, 1, 500'000'000, 1'500'000'000);  // half of the copies ran beside the update
  EXPECT_NEAR(update_s(), 1 + (0.5 * 0.5 + 0.9 * 1.5) / 2, 1e-6);
  end_step(1.7, 1.7, 0, 0);
  EXPECT_NEAR(update_s(), 1, 1e-6) << "no copies";
  end_step(0.5, 1, 1'000'000'000, 0);
  EXPECT_NEAR(update_s(), 1.5, 1e-6) << "no more than all copies";
  end_step(1, 0, 1'000'000'000, 0);
  EXPECT_NEAR(update_s(), 1, 1e-6) << "not beside them";
}

/// Bytes per second as of round_machine; the rig's streams are the one up and the one down.
TEST(VirtualRig, CopiesUpAreSlowerAsFarAsUpdatesOrCopiesDownRunBesideThem) {
  VirtualRig rig(round_machine());
  Machine parts = rig.parts(false);
  const auto device = parts.make_device({kDLCUDA, 0}).value();
  const auto up = device->make_stream().value(), down = device->make_stream().value();
  const auto team = parts.make_team(1, 0).value();
  const auto copy = [](Stream& stream) { return stream.copy(nullptr, nullptr, 1'000'000'000); };
  const auto update = [&](std::uint64_t n_bytes) {
    return team->add({.n_parts = 1, .run = {}, .touched_bytes = n_bytes});
  };
  const auto until_s = [&](const Event& event) { return event.wait().value(), rig.now_s(); };
  EXPECT_NEAR(until_s(copy(*up)), 1, 1e-6);
  EXPECT_NEAR(until_s(copy(*down)), 2, 1e-6);
  update(500'000'000);
  EXPECT_NEAR(until_s(copy(*up)), 3.2, 1e-6) << "half of it takes 1.4 times as long";
  const Event updated = update(3'000'000'000);
  EXPECT_NEAR(until_s(copy(*down)), 4.2, 1e-6) << "no longer beside an update";
  EXPECT_NEAR(until_s(updated), 6.2, 1e-6);
  const Event down_first = copy(*down);
  EXPECT_NEAR(until_s(copy(*up)), 7.45, 1e-6) << "1.25 times as long beside a copy down";
  EXPECT_NEAR(until_s(down_first), 7.45, 1e-6) << "which took no longer";
  const Event first = copy(*up), second = copy(*up);
  copy(*down);
  EXPECT_NEAR(until_s(second), 9.45, 1e-6) << "it is known already";
  EXPECT_NEAR(until_s(copy(*up)), 10.7, 1e-6) << "the next begins later for both";
}

TEST(VirtualRig, OnTheHostNothingSlowsACopy) {
  ForecastMachine machine = round_machine();
  machine.kind = DeviceKind::cpu;
  VirtualRig rig(machine);
  Machine parts = rig.parts(false);
  const auto device = parts.make_device({kDLCPU, 0}).value();
  const auto up = device->make_stream().value(), down = device->make_stream().value();
  parts.make_team(1, 0).value()->add({.n_parts = 1, .run = {}, .touched_bytes = 2'000'000'000});
  down->copy(nullptr, nullptr, 1'000'000'000);
  up->copy(nullptr, nullptr, 1'000'000'000).wait().value();
  EXPECT_NEAR(rig.now_s(), 1, 1e-6);
}

TEST(VirtualRig, UpdatesSlowOperationsDownAsFarAsTheyRanBesideThem) {
  ForecastMachine machine = round_machine();
  machine.compute_slowdown = 1.2;
  VirtualRig rig(machine);
  const auto compute_s = [&] {
    const double begin_s = rig.now_s();
    rig.compute(1e12);
    rig.join();
    return rig.now_s() - begin_s;
  };
  StepEstimate step;
  step.step_s = 2, step.beside_s = 0.5;
  EXPECT_NEAR(compute_s(), 1, 1e-6);
  rig.end_step(step);
  EXPECT_NEAR(compute_s(), 1 / (0.75 + 0.25 / 1.2), 1e-6) << "a quarter of the time at 1 / 1.2 of the rate";
  step.beside_s = 3;
  rig.end_step(step);
  EXPECT_NEAR(compute_s(), 1.2, 1e-6);
  step.beside_s = 0;
  rig.end_step(step);
  EXPECT_NEAR(compute_s(), 1, 1e-6);
}

/// Half of the sixteenth of the tensors' bytes that the placement leaves to the allocator.
TEST(Forecast, TheDevicesPeakHasTheMiddleOfWhatTheAllocatorCanHold) {
  const auto peak_bytes = [](std::uint64_t own_bytes) {
    const RecordedStep step = layers(4, kLayerNumel, 1e9, own_bytes);
    return forecast(step, with_device(32 * kGiB), round_machine(), adamw()).value().peak_bytes[index(Tier::device)];
  };
  EXPECT_EQ(peak_bytes(9600 * kMiB) - peak_bytes(6400 * kMiB), (3200 + 100) * kMiB);
}

/// Also the work after an announcement that falls away.
TEST(RecordedStep, IsRepeatedWithAllOfItsWork) {
  RecordedStep one = layers(2, kLayerNumel, 1e9, kMiB);
  for (RecordedCall& call : one.calls)
    if (call.call.kind == Kind::announce) call.flops = 7e9, call.peak_bytes = 5 * kMiB;
  for (const std::uint32_t n : {0u, 1u, 3u}) {
    RecordedStep step = one;
    step.repeat(n);
    const auto is_announcement = [](const RecordedCall& call) { return call.call.kind == Kind::announce; };
    const auto n_announced = std::count_if(step.calls.begin(), step.calls.end(), is_announcement);
    EXPECT_EQ(step.flops(), std::max(n, 1u) * (2 * 3 * 1e9 + 7e9)) << n;
    EXPECT_EQ(n_announced, n == 0 ? 0 : 1);
    EXPECT_EQ(step.peak_bytes(), 5 * kMiB);
  }
}

TEST(RecordedStep, MayBeginWithAnAnnouncementThatFallsAway) {
  RecordedStep step;
  step.calls = {{{Kind::announce, 0, 0}, 1e9, kMiB}, {{Kind::end_of_backward, 0, 0}, 2e9, kMiB}};
  step.repeat(0);
  ASSERT_EQ(step.calls.size(), 1u);
  EXPECT_EQ(step.flops(), 2e9);
}

/// A unit that is recomputed within the backward pass of itself, or of another.
TEST(RecordedStep, CountsTheWorkOfItsUnits) {
  RecordedStep step;
  step.units = {{"first", {}}, {"second", {}}};
  const auto add = [&](Kind kind, std::uint32_t id, double work) { step.calls.push_back({{kind, id, 0}, work, 0}); };
  add(Kind::forward, 0, 1), add(Kind::end_forward, 0, 10);
  add(Kind::forward, 1, 100), add(Kind::end_forward, 1, 1000);
  add(Kind::backward, 1, 2e4), add(Kind::forward, 1, 1e5), add(Kind::end_forward, 1, 1e6);
  add(Kind::gradient, 0, 1e7), add(Kind::end_backward, 1, 1e8);
  add(Kind::backward, 0, 2e9), add(Kind::forward, 1, 3e10), add(Kind::end_forward, 1, 4e9);
  add(Kind::end_backward, 0, 1e12);
  EXPECT_EQ(step.flops_of_units(), (std::vector<double>{6e9 + 1, 100 + 2e4 + 1e5 + 1e6 + 1e7 + 3e10}));
}

TEST(RecordedStep, CountsItsParametersAndItsWork) {
  const RecordedStep step = layers(3, 1000, 5, 70);
  EXPECT_EQ(step.n_params(), 3000u);
  EXPECT_EQ(step.flops(), 3 * (5 + 10));
  EXPECT_EQ(step.peak_bytes(), 70u);
}

}  // namespace
}  // namespace castor
