// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/bytes.h>
#include <castor/plan/placement.h>

#include <gtest/gtest.h>

#include <algorithm>

namespace castor {
namespace {

/// Four chunks of a million bf16 weights: 2 MB payload, 2 MB gradients, 12 MB states each.
PlacementRequest four_chunks() {
  PlacementRequest request;
  request.chunks.assign(4, {2'000'000, 2'000'000, 12'000'000, 12'000'000});
  request.largest_unit = {"blocks.0.fc", 2'000'000};
  return request;
}

template <typename T>
using Chunks = IndexedVector<PayloadId, T>;
using Homes = Chunks<Tier>;
constexpr Tier kDevice = Tier::device, kHost = Tier::host, kNvme = Tier::nvme;

TEST(PlanPlacement, WithoutLimitsEverythingIsOnTheDevice) {
  EXPECT_EQ(plan_placement(four_chunks()).value().states, (Homes{kDevice, kDevice, kDevice, kDevice}));
}

TEST(PlanPlacement, TheDeviceTakesTheFirstChunksBesideAllParametersAndActivations) {
  auto request = four_chunks();
  request.non_model_bytes = 5'000'000;
  request.device_budget_bytes = 5'000'000 + 8'000'000 + 2 * 14'000'000;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kDevice, kDevice, kHost, kHost}));
  request.device_budget_bytes -= 1;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kDevice, kHost, kHost, kHost}));
}

/// 12 MB of states and 2 MB of gradients, beside 2 MB of weights that are used and 2 MB that are next.
TEST(PlanPlacement, TheFirstStatesComeBeforeTheWeightsOfOtherChunks) {
  auto request = four_chunks();
  request.non_model_bytes = 5'000'000;
  request.device_budget_bytes = 5'000'000 + 14'000'000 + 4'000'000;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kDevice, kHost, kHost, kHost}));
  request.chunks[PayloadId{0}].state_bytes = 0;
  request.chunks[PayloadId{0}].gradient_bytes = 0;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kHost, kDevice, kHost, kHost})) << "of those that learn";
  request.device_budget_bytes -= 1;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kHost, kHost, kHost, kHost}));
}

TEST(PlanPlacement, PolicyCpuKeepsStatesOffTheDevice) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kHost, kHost, kHost, kHost}));
}

TEST(PlanPlacement, PolicyCudaSaysHowMuchItWouldTake) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cuda;
  request.device_budget_bytes = 64'000'000 - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find(format_bytes(64'000'000)), std::string::npos) << refused.error().message;
  request.device_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(PlanPlacement, TheNvmeShareComesFromTheEndOfTheModel) {
  auto request = four_chunks();
  request.nvme = true;
  request.nvme_fraction = 0.5;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kDevice, kDevice, kNvme, kNvme}));
  request.nvme_fraction = 1;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kNvme, kNvme, kNvme, kNvme}));
}

/// Below the device lie 48 MB of states and 6 MB of weights.
TEST(PlanPlacement, AnNvmeBudgetThatIsTooSmallIsRefusedWithTheOneThatWouldDo) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  request.device_budget_bytes = 2'000'000;
  request.nvme = true;
  request.host_budget_bytes = 20'000'000;
  request.nvme_budget_bytes = 48'000'000 + 6'000'000 - 20'000'000 - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().shortage->tier, Tier::nvme);
  EXPECT_EQ(refused.error().shortage->needed_bytes, 48'000'000u + 6'000'000u) << "whatever the host holds";
  request.nvme_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok()) << "gradients may be used up before the next ones need room";
}

TEST(PlanPlacement, NvmeHoldsAtLeastTheShareOfTheStatesThatIsAtHomeThere) {
  auto request = four_chunks();
  request.nvme = true;
  request.nvme_fraction = 0.5;
  request.nvme_budget_bytes = 2 * 12'000'000 - 1;
  EXPECT_EQ(plan_placement(request).error().shortage->tier, Tier::nvme);
  request.nvme_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(PlanPlacement, AnNvmeShareWithoutAFolderIsAUsageError) {
  auto request = four_chunks();
  request.nvme_fraction = 0.5;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

TEST(PlanPlacement, ADeviceSmallerThanTheLargestUnitIsRefusedWithTheBudgetThatWouldDo) {
  auto request = four_chunks();
  request.device_budget_bytes = 1'999'999;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("blocks.0.fc"), std::string::npos);
  EXPECT_NE(refused.error().message.find("`device_budget`"), std::string::npos);
}

TEST(PlanPlacement, PolicyStaticKeepsStatedSharesOffTheDevice) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::shares;
  EXPECT_EQ(plan_placement(request).value().states, (Homes{kDevice, kDevice, kDevice, kDevice}));
  EXPECT_EQ(plan_placement(request).value().payload_off_device, (Chunks<bool>{false, false, false, false}));
  request.offload_optim_fraction = 0.5;
  request.offload_param_fraction = 0.5;
  const StatePlacement half = plan_placement(request).value();
  EXPECT_EQ(half.states, (Homes{kDevice, kDevice, kHost, kHost}));
  EXPECT_EQ(half.payload_off_device, (Chunks<bool>{false, true, false, true})) << "spread over the model";
  EXPECT_EQ(half.device_bytes, 28'000'000u);
  request.offload_optim_fraction = 1;
  request.offload_param_fraction = 1;
  const StatePlacement all = plan_placement(request).value();
  EXPECT_EQ(all.states, (Homes{kHost, kHost, kHost, kHost}));
  EXPECT_EQ(all.payload_off_device, (Chunks<bool>{true, true, true, true}));
  EXPECT_EQ(all.host_bytes, 4 * 16'000'000u + 2'000'000u - 2'000'000u) << "less the unit that is on the device";
}

TEST(PlanPlacement, SharesThatAreWholeChunksOnlyByRoundingAreMet) {
  auto request = four_chunks();
  request.chunks.assign(10, {2'000'000, 2'000'000, 12'000'000, 12'000'000});
  request.policy = PlacementPolicy::shares;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    request.offload_optim_fraction = request.offload_param_fraction = tenths / 10.0;
    const StatePlacement plan = plan_placement(request).value();
    EXPECT_EQ(std::count(plan.states.begin(), plan.states.end(), kHost), tenths);
    EXPECT_EQ(std::count(plan.payload_off_device.begin(), plan.payload_off_device.end(), true), tenths);
  }
}

TEST(PlanPlacement, SharesThatDoNotFitSayWhatWould) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::shares;
  request.offload_optim_fraction = 0.5;
  request.offload_param_fraction = 0.5;
  request.non_model_bytes = 1'000'000;
  const std::uint64_t needed_bytes = 1'000'000 + 2 * 2'000'000 + 2'000'000 + 2 * 14'000'000;
  request.device_budget_bytes = needed_bytes - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("raise `device_budget` to " + format_bytes_up(needed_bytes)),
            std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("offload_param_frac"), std::string::npos);
  request.device_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(PlanPlacement, AHostThatCannotUpdateOneChunkIsRefusedAlsoWithNvme) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  request.nvme = true;
  request.host_budget_bytes = 16'000'000 - 1;
  EXPECT_EQ(plan_placement(request).error().kind, ErrorKind::does_not_fit);
  request.host_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(PlanPlacement, WithoutNvmeTheHostMustHoldAllStatesAndGradientsAndTheWeightsOfOneUpdate) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  request.host_budget_bytes = 4 * 14'000'000 + 2'000'000 - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("`nvme`"), std::string::npos) << refused.error().message;
  request.host_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

/// four_chunks() with sums in fp32, 4 MB each, and 4 MB for two gradients in bf16 that arrive.
PlacementRequest four_chunks_added_up() {
  auto request = four_chunks();
  for (ChunkDemand& chunk : request.chunks) chunk.gradient_bytes = chunk.arriving_bytes = 4'000'000;
  return request;
}

TEST(PlanPlacement, GradientsThatAreAddedUpTakeTheirSumsAndOnceTheRoomToArrive) {
  auto request = four_chunks_added_up();
  request.policy = PlacementPolicy::cpu;
  request.host_budget_bytes = 4 * (12'000'000 + 4'000'000) + 2'000'000 + 4'000'000 - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  request.host_budget_bytes += 1;
  const auto placed = plan_placement(request);
  ASSERT_TRUE(placed.ok());
  EXPECT_EQ(placed->host_bytes, request.host_budget_bytes);
}

TEST(PlanPlacement, GradientsThatAreAddedUpOnTheDeviceToo) {
  auto request = four_chunks_added_up();
  request.device_budget_bytes = 4 * 2'000'000 + 2 * (12'000'000 + 4'000'000) + 4'000'000;
  auto placed = plan_placement(request).value();
  EXPECT_EQ(placed.states, (Homes{kDevice, kDevice, kHost, kHost}));
  EXPECT_EQ(placed.device_bytes, 36'000'000u);
  request.device_budget_bytes -= 1;
  placed = plan_placement(request).value();
  EXPECT_EQ(placed.states, (Homes{kDevice, kHost, kHost, kHost}));
  EXPECT_EQ(placed.device_bytes, 20'000'000u);
}

TEST(PlanPlacement, GradientsThatAreAddedUpCountForPoliciesThatFillTheDevice) {
  auto request = four_chunks_added_up();
  request.device_budget_bytes = 4 * (2'000'000 + 12'000'000 + 4'000'000) + 4'000'000 - 1;
  for (const auto policy : {PlacementPolicy::cuda, PlacementPolicy::shares}) {
    request.policy = policy;
    const auto refused = plan_placement(request);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find(format_bytes(76'000'000)), std::string::npos) << refused.error().message;
  }
}

TEST(PlanPlacement, OfStatesInTilesTheHostMustHoldOneAtATime) {
  auto request = four_chunks();
  request.nvme = true;
  for (auto& chunk : request.chunks) chunk.tile_bytes = 3'000'000;
  request.host_budget_bytes = 3'000'000 + 2'000'000 + 2'000'000 - 1;
  const auto refused = plan_placement(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("updating the largest chunk takes 6.68 MiB"), std::string::npos)
      << refused.error().message;
  request.host_budget_bytes += 1;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(PlanPlacement, FrozenChunksTakeNoStates) {
  auto request = four_chunks();
  for (auto& chunk : request.chunks) chunk = {2'000'000, 0, 0, 0};
  request.policy = PlacementPolicy::cuda;
  request.device_budget_bytes = 2'000'000;
  EXPECT_TRUE(plan_placement(request).ok());
}

TEST(ParsePlacementPolicy, KnowsItsNames) {
  EXPECT_EQ(parse_placement_policy("auto").value(), PlacementPolicy::automatic);
  EXPECT_EQ(parse_placement_policy("cpu").value(), PlacementPolicy::cpu);
  EXPECT_EQ(parse_placement_policy("cuda").value(), PlacementPolicy::cuda);
  EXPECT_EQ(parse_placement_policy("static").value(), PlacementPolicy::shares);
  EXPECT_EQ(parse_placement_policy("const").value(), PlacementPolicy::constant);
  EXPECT_EQ(parse_placement_policy("disk").error().kind, ErrorKind::usage);
}

TEST(PlanPlacement, StreamsTheFirstChunkAndAShareOfTheOthersSpreadOverTheModel) {
  auto request = four_chunks();
  request.chunks.assign(8, request.chunks[PayloadId{0}]);
  EXPECT_EQ(plan_placement(request).value().streamed, Chunks<bool>(8, false));
  request.policy = PlacementPolicy::cpu;
  request.stream_fraction = 0.5;
  const StatePlacement half = plan_placement(request).value();
  EXPECT_EQ(half.streamed, (Chunks<bool>{true, false, false, true, false, true, false, true}));
  EXPECT_EQ(half.states, Homes(8, kHost));
  EXPECT_EQ(half.update_tier(PayloadId{0}), kDevice);
  EXPECT_EQ(half.update_tier(PayloadId{1}), kHost);
  request.stream_fraction = 0.1;  // less than the first chunk
  EXPECT_EQ(plan_placement(request).value().streamed, Chunks<bool>(8, false));
  request.stream_fraction = 1;
  EXPECT_EQ(plan_placement(request).value().streamed, Chunks<bool>(8, true));
  request.chunks[PayloadId{3}].state_bytes = 0;  // frozen
  EXPECT_FALSE(plan_placement(request).value().streamed[PayloadId{3}]);
}

TEST(PlanPlacement, StreamsWhatIsUpdatedBesideTheLargestUnitAlone) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  request.stream_fraction = 1;
  request.non_model_bytes = 1'000'000;
  request.device_budget_bytes = 1'000'000 + 2'000'000 + 12'000'000 + 2 * 2'000'000 + 2'000'000;
  EXPECT_EQ(plan_placement(request).value().streamed, Chunks<bool>(4, true));
  request.device_budget_bytes -= 1;
  EXPECT_EQ(plan_placement(request).value().streamed, Chunks<bool>(4, false));
}

using Speculative = Chunks<bool>;

// Eight chunks of 14 MB without their gradients; every second one may speculate.
TEST(PlanPlacement, StreamsTheFirstChunkAndThenWhatMayNotBeUpdatedSpeculatively) {
  auto request = four_chunks();
  request.chunks.assign(8, request.chunks[PayloadId{0}]);
  request.policy = PlacementPolicy::cpu;
  request.speculation_bytes = Budget::kUnlimited;
  request.may_speculate = {true, false, true, false, true, false, true, false};
  const StatePlacement none = plan_placement(request).value();
  EXPECT_EQ(none.speculative, request.may_speculate);
  EXPECT_EQ(none.streamed, Speculative(8, false));
  request.stream_fraction = 0.25;
  const StatePlacement quarter = plan_placement(request).value();
  EXPECT_EQ(quarter.streamed, (Speculative{true, false, false, false, false, false, false, true}));
  EXPECT_EQ(quarter.speculative, (Speculative{false, false, true, false, true, false, true, false}));
  request.stream_fraction = 0.5;
  const StatePlacement half = plan_placement(request).value();
  EXPECT_EQ(half.streamed, (Speculative{true, false, false, true, false, true, false, true}));
  EXPECT_EQ(half.speculative, (Speculative{false, false, true, false, true, false, true, false}));
  request.stream_fraction = 0.75;
  const StatePlacement most = plan_placement(request).value();
  EXPECT_EQ(most.streamed, (Speculative{true, true, false, true, false, true, true, true}));
  EXPECT_EQ(most.speculative, (Speculative{false, false, true, false, true, false, false, false}));
}

TEST(PlanPlacement, SpeculatesAllOverTheModelAsFarAsTheHostHasRoomForTheNewStates) {
  auto request = four_chunks();
  request.policy = PlacementPolicy::cpu;
  EXPECT_EQ(plan_placement(request).value().speculative, Speculative(4, false)) << "unless it is asked for";
  request.speculation_bytes = Budget::kUnlimited;
  EXPECT_EQ(plan_placement(request).value().speculative, Speculative(4, true));
  request.speculation_bytes = 2 * 14'000'000;
  EXPECT_EQ(plan_placement(request).value().speculative, (Speculative{false, true, false, true}));
  EXPECT_EQ(plan_placement(request).value().speculation_bytes, 2 * 14'000'000u);
  request.speculation_bytes -= 1;
  EXPECT_EQ(plan_placement(request).value().speculative, (Speculative{false, true, false, false}));
  request.speculation_bytes = Budget::kUnlimited;
  const std::uint64_t weights_bytes = 8'000'000;  // they are copied to the host for their update
  request.host_budget_bytes = plan_placement(request).value().host_bytes + weights_bytes + 3 * 14'000'000;
  EXPECT_EQ(plan_placement(request).value().speculative, (Speculative{false, true, true, true})) << "three quarters";
  request.nvme = true;
  request.nvme_fraction = 0.25;
  EXPECT_EQ(plan_placement(request).value().states[PayloadId{3}], kNvme);
  EXPECT_FALSE(plan_placement(request).value().speculative[PayloadId{3}]);
}

TEST(PlanPlacement, SpeculationLeavesRoomOnTheHostToStatesThatAreAtHomeOnTheDevice) {
  auto request = four_chunks();
  request.device_budget_bytes = 8'000'000 + 14'000'000;  // all weights, and the first chunk's states and gradients
  request.speculation_bytes = Budget::kUnlimited;
  const StatePlacement roomy = plan_placement(request).value();
  ASSERT_EQ(roomy.states, (Homes{kDevice, kHost, kHost, kHost}));
  EXPECT_EQ(roomy.speculative, (Speculative{false, true, true, true}));
  request.host_budget_bytes = roomy.host_bytes + 8'000'000 + 12'000'000 + 3 * 14'000'000;
  EXPECT_EQ(plan_placement(request).value().speculative, (Speculative{false, true, true, true}));
  request.host_budget_bytes -= 1;
  EXPECT_EQ(plan_placement(request).value().speculation_bytes, 2 * 14'000'000u);
}

}  // namespace
}  // namespace castor
