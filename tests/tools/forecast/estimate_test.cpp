// SPDX-License-Identifier: Apache-2.0
#include "forecast/estimate/forecast.h"
#include "forecast/estimate/iteration.h"
#include "forecast/shapes/model_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include <castor/memory/bytes.h>

namespace castor::estimate {
namespace {

/// Units: wte 40, wpe 12, per block ln_1 8, qkv 60, proj 20, ln_2 8, fc 80, proj 68, then ln_f 8 and head.
shapes::Model tiny(const std::string& more = "") {
  return shapes::model("gpt:layers=2,hidden=4,heads=1,vocab=10" + more, 3).value();
}

constexpr std::uint32_t kWte = 0, kQkv = 3, kFc = 6, kFinalNorm = 14, kHead = 15;
const Workload kWork = {2, 3, DType::bf16, false, false};  // 6 tokens

TEST(Workload, AWeightTakesTwoOperationsPerToken) {
  EXPECT_EQ(forward_flops(tiny(), UnitId{kFc}, kWork), 2 * 80 * 6);
  EXPECT_EQ(forward_flops(tiny(), UnitId{kWte}, kWork), 0) << "a look-up";
  EXPECT_EQ(forward_flops(tiny(), UnitId{kHead}, kWork), 2 * 40 * 6) << "the embedding's weights, as a product";
  EXPECT_EQ(forward_flops(tiny(",tied=0"), UnitId{kHead}, kWork), 2 * 40 * 6);
}

TEST(Workload, AttentionTakesFourPerPairOfPositionsThatSeeEachOther) {
  EXPECT_EQ(forward_flops(tiny(), UnitId{kQkv}, kWork), 2 * 60 * 6 + 4 * 9 * 4 * 2 / 2);
  const shapes::Model vit = shapes::model("vit-b").value();
  const double weights = 3 * 768 * 768 + 3 * 768;
  EXPECT_EQ(forward_flops(vit, UnitId{3}, kWork), 2 * weights * 2 * 197 + 4.0 * 197 * 197 * 768 * 2)
      << "seq is for text";
}

TEST(Workload, AHeadOnTheClassTokenWorksOncePerImage) {
  const shapes::Model vit = shapes::model("vit-b").value();
  const auto head = id_at<UnitId>(vit.units.size() - 1);
  EXPECT_NEAR(forward_flops(vit, head, kWork), 2.0 * (768 * 1000 + 1000) * 2, 1);
}

TEST(Workload, WholeModelsTakeTwoOperationsPerParameterAndToken) {
  const shapes::Model model = shapes::model("llama3-70b").value();
  const Workload work = {1, 64, DType::bf16, false, false};
  double flops = 0;
  for (const UnitId unit : model.units.ids()) flops += forward_flops(model, unit, work);
  const double looked_up = 128256.0 * 8192;
  const double attention = 80 * 4.0 * 64 * 64 * 8192 / 2;
  EXPECT_NEAR(flops, 2 * (static_cast<double>(model.n_params()) - looked_up) * 64 + attention, 1e-9 * flops);
}

TEST(Workload, KeepsWhatEveryBlockNeeds) {
  const NonModel bytes = non_model(tiny(), kWork);
  EXPECT_EQ(bytes.kept_bytes, 2 * (16 * 4 * 6 * 2u) + 2 * (4 * 6 * 2)) << "two blocks, the final norm and the head";
  EXPECT_EQ(bytes.at_once_bytes, 60 * 2 * 2 + 3 * 4 * 60u) << "60 logits, their gradient, three copies in fp32";
  EXPECT_EQ(bytes.gradient_bytes, 80 * 2u);
  EXPECT_EQ(bytes.total_bytes(), bytes.kept_bytes + bytes.at_once_bytes + bytes.gradient_bytes);
}

TEST(Workload, RecomputingKeepsTheInputOfEachBlockAndOneBlockWhole) {
  Workload work = kWork;
  work.recompute = true;
  EXPECT_EQ(block_input_bytes(tiny(), work), 4 * 6 * 2u);
  EXPECT_EQ(non_model(tiny(), work).kept_bytes, (2 + 2) * (4 * 6 * 2u));
  work.offload_activations = true;
  EXPECT_EQ(non_model(tiny(), work).kept_bytes, 2 * (4 * 6 * 2u));
  EXPECT_EQ(non_model(tiny(), work).at_once_bytes, 16 * 4 * 6 * 2 + 2 * 16 * 6 * 2u) << "more than the loss";
}

TEST(Workload, LargeLossesWorkOnEightMebiLogitsAtATime) {
  Workload work = {8, 1024, DType::bf16, true, false};
  const std::uint64_t n_logits = 8 * 1024 * 50304;
  EXPECT_EQ(non_model(shapes::model("gpt2-124m").value(), work).at_once_bytes, 4 * n_logits + 3 * 32 * kMiB);
  work.precision = DType::f32;
  EXPECT_EQ(non_model(shapes::model("gpt2-124m").value(), work).at_once_bytes, 8 * n_logits + 3 * 32 * kMiB);
}

/// The moments of one step with chunks of 4 KiB; the states of the first chunk are on the device.
class IterationTest : public ::testing::Test {
 protected:
  Rehearsal make(bool recompute, bool clip, bool split = false) {
    layout_ = plan_layout(shapes::tensors_of(model_, DType::bf16), {4096});
    StatePlacement placement;
    placement.states.assign(layout_.chunks.size(), Tier::host);
    placement.states[PayloadId{0}] = Tier::device;
    placement.streamed.assign(layout_.chunks.size(), false);
    placement.speculative.assign(layout_.chunks.size(), false);
    placement.payload_off_device.assign(layout_.chunks.size(), false);
    return iteration_of(model_, layout_, placement, {recompute, 0}, {clip}, {split}).value();
  }

  static std::string text(const Rehearsal& iteration) {
    std::string moments;
    for (std::uint64_t m = 0; m < iteration.trace.n_moments(); ++m)
      moments += name(iteration.trace.moment(m).kind)[0] + std::to_string(iteration.trace.moment(m).id) + " ";
    return moments;
  }

  static std::string needs(const Rehearsal& iteration, std::uint64_t moment) {
    std::string found;
    for (const Need& need : iteration.trace.needs(moment))
      found += std::to_string(number(need.chunk)) + (need.tier == Tier::device ? "d" : "h") + name(need.access)[0] +
               (iteration.trace.dropped(moment, need.chunk) ? "! " : " ");
    return found;
  }

  const shapes::Model model_ = tiny();
  ChunkLayout layout_;
};

TEST_F(IterationTest, ForwardBackwardUpdate) {
  const Rehearsal iteration = make(false, false);
  ASSERT_EQ(layout_.chunks.size(), 4u) << "28 tensors of 512 B each, 8 a chunk";
  EXPECT_EQ(text(iteration),
            "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 "
            "b15 b14 b13 b12 b11 b10 b9 b8 b7 b6 b5 b4 b3 b2 b1 b0 u0 u1 u2 u3 ");
}

TEST_F(IterationTest, RecomputedBlocksRunForwardBeforeTheyRunBackward) {
  EXPECT_EQ(text(make(true, true)),
            "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 b15 b14 "
            "f8 f9 f10 f11 f12 f13 b13 b12 b11 b10 b9 b8 "
            "f2 f3 f4 f5 f6 f7 b7 b6 b5 b4 b3 b2 b1 b0 n0 u0 u1 u2 u3 ");
}

TEST_F(IterationTest, SpeculativeUpdatesComeBeforeTheNormAndLeaveTheOldWeights) {
  layout_ = plan_layout(shapes::tensors_of(model_, DType::bf16), {4096});
  StatePlacement placement;
  placement.states.assign(4, Tier::host);
  placement.streamed.assign(4, false);
  placement.speculative = {false, true, false, true};
  placement.payload_off_device.assign(4, false);
  const Rehearsal iteration =
      iteration_of(model_, layout_, placement, {false, 0}, {true, /*overlap_updates=*/true}, {}).value();
  const std::string moments = text(iteration);
  EXPECT_LT(moments.find("u3 "), moments.find("u1 "));
  EXPECT_LT(moments.find("u1 "), moments.find("n0 u0 u2 "));
  std::uint64_t m = 0;
  while (iteration.trace.moment(m).kind != MomentKind::update) ++m;
  EXPECT_EQ(needs(iteration, m), "7hu 17hr! 6hu ");
  EXPECT_EQ(needs(iteration, iteration.trace.n_moments() - 1), "5hu 14hr! 4ho ");
}

TEST_F(IterationTest, GradientsComeWithTheirUnitAndGoWithTheirUpdate) {
  const Rehearsal iteration = make(false, true);
  // Payloads are 0, 2, 4, 6, states 1, 3, 5, 7, gradients 8, 11, 14, 17 (each with two
  // chunks for sums behind it); chunk 0, its states and its gradient stay on the
  // device.
  EXPECT_EQ(needs(iteration, kHead), "0dr ") << "the embedding's weights";
  EXPECT_EQ(needs(iteration, 16), "0dr ") << "whose gradient comes when the embedding has run backward";
  EXPECT_EQ(needs(iteration, 16 + 15 - kFinalNorm), "6dr 17ho ") << "the first of its chunk overwrites";
  EXPECT_EQ(needs(iteration, 16 + 15), "0dr 8du ") << "the others add";
  EXPECT_EQ(needs(iteration, 32), "") << "the norm has been made on the way";
  EXPECT_TRUE(iteration.trace.joins(32));
  EXPECT_EQ(needs(iteration, 33), "1du 8dr! 0do ");
  EXPECT_EQ(needs(iteration, 36), "7hu 17hr! 6ho ");
}

TEST_F(IterationTest, AChunkHas16BytesPerElement) {
  const Rehearsal iteration = make(false, false);
  ASSERT_EQ(iteration.problem.chunks.size(), 8u + 4 * 3);
  for (const std::size_t i : {0, 1, 2}) {
    EXPECT_EQ(iteration.problem.chunks[id_at<ChunkId>(2 * i)].n_bytes, 4096u);
    EXPECT_EQ(iteration.problem.chunks[id_at<ChunkId>(2 * i + 1)].n_bytes, 6 * 4096u);
    EXPECT_EQ(iteration.problem.chunks[id_at<ChunkId>(8 + 3 * i)].n_bytes, 4096u);
  }
}

TEST_F(IterationTest, SplitMastersTakeTwoBytesLessAndTheWeights) {
  const Rehearsal iteration = make(false, true, /*split=*/true);
  for (const std::size_t i : {0, 1, 2})
    EXPECT_EQ(iteration.problem.chunks[id_at<ChunkId>(2 * i + 1)].n_bytes, 5 * 4096u);
  EXPECT_EQ(needs(iteration, 33), "1du 8dr! 0du ");
  EXPECT_EQ(needs(iteration, 36), "7hu 17hr! 6hu ");
}

/// A machine so slow that every cost is visible.
Request request(const shapes::Model& model, std::uint64_t device_bytes, std::uint64_t host_bytes) {
  return {
      model, kWork, device_bytes, host_bytes, false, 0, {}, PlacementPolicy::automatic, {1000, {1, 1, 1, 1}, 10, 100}};
}

TEST(Forecast, WithRoomForAllTheStepIsItsComputing) {
  const Forecast found = forecast(request(tiny(), kGiB, kGiB)).value();
  double flops = 0;
  for (std::uint32_t unit = 0; unit <= kHead; ++unit) flops += 3 * forward_flops(tiny(), UnitId{unit}, kWork);
  const double numel = 28 * 256;  // each tensor starts at a multiple of 256 elements
  EXPECT_NEAR(found.update_s, 26 * numel / 100, 1e-9);
  EXPECT_NEAR(found.step.estimate.step_s, flops / 1000 + found.update_s, 1e-6);
  EXPECT_EQ(found.step.plan.link_seconds, 0);
}

TEST(Forecast, OnTheHostAnUpdateGoesByItsRateAndSendsTheWeightsUp) {
  Request asked = request(tiny(), kGiB, kGiB);
  asked.policy = PlacementPolicy::cpu;
  const Forecast found = forecast(asked).value();
  const std::uint64_t numel = 28 * 256;
  EXPECT_NEAR(found.update_s, 26 * static_cast<double>(numel) / 10, 1e-9);
  EXPECT_EQ(found.step.plan.moved.h2d, 2 * numel);
}

TEST(Forecast, StatesAreStreamedWhereTheHostIsSlowAndTheLinksAreNot) {
  Request asked = request(tiny(), kGiB, kGiB);
  asked.policy = PlacementPolicy::cpu;
  asked.rates.host_update_bytes_per_s = 0.001;
  asked.rates.links = {1e-9, 1e-9, 1e-9, 1e-9};
  const Forecast chosen = forecast(asked).value();
  EXPECT_EQ(chosen.placement.streamed.entries(), std::vector<bool>{true});
  const double numel = 28 * 256;
  EXPECT_NEAR(chosen.update_s, 26 * numel / 100, 1e-9) << "at the device's rate";
  EXPECT_EQ(chosen.step.estimate.beside_s, 0);
  asked.stream_fraction = 0;
  EXPECT_NEAR(forecast(asked).value().update_s, 26 * numel / 0.001, 1);
  asked.stream_fraction.reset();
  asked.work.overlap_updates = false;
  EXPECT_EQ(forecast(asked).value().placement.streamed.entries(), std::vector<bool>{false})
      << "nothing works beside the host";
}

TEST(Forecast, UpdatesThatAreSpeculativeTakeHostMemoryThatIsLeftOver) {
  Request asked = request(tiny(), kGiB, kGiB);
  asked.policy = PlacementPolicy::cpu;
  asked.work.clip = true;
  const Forecast chosen = forecast(asked).value();
  EXPECT_EQ(chosen.placement.speculative.entries(), std::vector<bool>{true});
  EXPECT_EQ(chosen.placement.speculation_bytes, 28 * 256 * 12u) << "low bits, moments and weights";
  asked.work.speculative_updates = false;
  EXPECT_EQ(forecast(asked).value().placement.speculation_bytes, 0u);
  asked.work.speculative_updates = true, asked.work.clip = false;
  EXPECT_EQ(forecast(asked).value().placement.speculation_bytes, 0u) << "nothing waits for a norm";
}

TEST(Forecast, ActivationsLeaveChunksTheRest) {
  Request asked = request(tiny(), 0, kGiB);
  asked.policy = PlacementPolicy::cpu;
  const std::uint64_t activations = non_model(asked.model, asked.work).total_bytes();
  const std::uint64_t largest_chunk = 28 * 512;
  asked.device_budget_bytes = activations + largest_chunk;
  const Forecast found = forecast(asked).value();
  EXPECT_EQ(found.problem.room_bytes[0][0], largest_chunk);
  asked.device_budget_bytes -= 1;
  const auto refused = forecast(asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("raise --device-budget to " + format_bytes_up(activations + largest_chunk)),
            std::string::npos)
      << refused.error().message;
}

// Three inputs, two of which fit on the device beside two units; each is over three times as large as the only chunk.
TEST(Forecast, InputsOfRecomputedBlocksLeaveTheDeviceWhereTheyHaveNoRoom) {
  Request asked = request(shapes::model("gpt:layers=3,hidden=4,heads=1,vocab=10", 3).value(), kGiB, kGiB);
  asked.policy = PlacementPolicy::cpu;
  asked.work = {4000, 3, DType::bf16, true, false, true};
  const Forecast roomy = forecast(asked).value();
  const std::uint64_t input_bytes = block_input_bytes(asked.model, asked.work);
  const std::uint64_t chunk_bytes = 2 * roomy.layout.chunks[PayloadId{0}].numel;
  ASSERT_GT(input_bytes, 3 * chunk_bytes);
  asked.device_budget_bytes = roomy.non_model.total_bytes() + 2 * chunk_bytes + 2 * input_bytes;
  const Forecast tight = forecast(asked).value();
  EXPECT_EQ(tight.step.plan.moved.d2h - roomy.step.plan.moved.d2h, input_bytes) << "one of three goes down";
  EXPECT_EQ(tight.step.plan.moved.h2d - roomy.step.plan.moved.h2d, input_bytes) << "and comes back";
  asked.work.offload_activations = false;
  EXPECT_FALSE(forecast(asked).ok()) << "then none leaves the device";
}

TEST(Forecast, ASampleLongerThanThePositionsIsRefused) {
  Request asked = request(tiny(), kGiB, kGiB);
  asked.work.seq = 4;
  const auto refused = forecast(asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor::estimate
