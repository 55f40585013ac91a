// SPDX-License-Identifier: Apache-2.0
#include <castor/states/model_chunks.h>

#include <gtest/gtest.h>

#include <array>

namespace castor {
namespace {

/// 64 units of 1 MiB in bf16.
std::vector<TensorSpec> units_of_one_mib() {
  std::vector<TensorSpec> tensors;
  for (std::uint32_t unit = 0; unit < 64; ++unit) tensors.push_back({512 * kKiB, DType::bf16, true, UnitId{unit}});
  return tensors;
}

TEST(ModelChunks, TheTighterBudgetLimitsTheirSize) {
  const auto tensors = units_of_one_mib();
  EXPECT_EQ(chunk_bytes_under(tensors, 128 * kMiB, 8 * kGiB), 8 * kMiB) << "a sixteenth of the device";
  EXPECT_EQ(chunk_bytes_under(tensors, 8 * kGiB, 256 * kMiB), 4 * kMiB) << "a 64th of the host";
}

TEST(ModelChunks, TheirSizeHasLimitsOfItsOwn) {
  const auto tensors = units_of_one_mib();
  EXPECT_EQ(chunk_bytes_under(tensors, Budget::kUnlimited, Budget::kUnlimited), kMaxChunkBytes);
  EXPECT_EQ(chunk_bytes_under(tensors, 0, 0), kMinChunkBytes);
}

TEST(ModelChunks, SixteenBytesPerParameterWhereItTrainsAndFourteenWhereMastersAreSplit) {
  const ChunkLayout layout = plan_layout(
      std::vector<TensorSpec>{{256, DType::bf16, true}, {256, DType::f32, true}, {512, DType::bf16, false}}, {kMiB});
  for (const bool split : {false, true}) {
    const auto demands = demands_of(layout, {split});
    ASSERT_EQ(demands.size(), 3u);
    const auto expect = [&demands](std::uint32_t i, std::uint64_t payload, std::uint64_t gradient,
                                   std::uint64_t state) {
      EXPECT_EQ(demands[PayloadId{i}].payload_bytes, payload) << "chunk " << i;
      EXPECT_EQ(demands[PayloadId{i}].gradient_bytes, gradient) << "chunk " << i;
      EXPECT_EQ(demands[PayloadId{i}].state_bytes, state) << "chunk " << i;
      EXPECT_EQ(demands[PayloadId{i}].tile_bytes, state) << "chunk " << i;
    };
    expect(0, 512, 512, 256 * (split ? 10 : 12));
    expect(1, 1024, 1024, 256 * 12);
    expect(2, 1024, 0, 0);
  }
}

TEST(ModelChunks, GradientsThatAreAddedUpTakeFourBytesAndTwoOfThemMayArrive) {
  const ChunkLayout layout = plan_layout(
      std::vector<TensorSpec>{{256, DType::bf16, true}, {256, DType::f32, true}, {512, DType::bf16, false}}, {kMiB});
  const auto demands = demands_of(layout, {}, StepGradients::added_up);
  const std::array<std::array<std::uint64_t, 2>, 3> expected = {{{1024, 1024}, {1024, 2048}, {0, 0}}};
  for (const PayloadId chunk : demands.ids()) {
    EXPECT_EQ(demands[chunk].gradient_bytes, expected[index(chunk)][0]) << index(chunk);
    EXPECT_EQ(demands[chunk].arriving_bytes, expected[index(chunk)][1]) << index(chunk);
  }
  for (const ChunkDemand& demand : demands_of(layout, {})) EXPECT_EQ(demand.arriving_bytes, 0u);
}

TEST(StateFormat, TakesSixToTwelveBytesAnElement) {
  const auto bytes = [](bool split, MomentFormat moments, DType weights) {
    return StateFormat{split, moments}.bytes_per_element(weights);
  };
  EXPECT_EQ(bytes(false, MomentFormat::f32, DType::bf16), 12u);
  EXPECT_EQ(bytes(true, MomentFormat::f32, DType::bf16), 10u);
  EXPECT_EQ(bytes(true, MomentFormat::mixed, DType::bf16), 8u);
  EXPECT_EQ(bytes(true, MomentFormat::bf16, DType::bf16), 6u);
  EXPECT_EQ(bytes(true, MomentFormat::f32, DType::f16), 12u);
  EXPECT_EQ(bytes(true, MomentFormat::bf16, DType::f32), 8u);
}

TEST(StateFormat, WithOneMomentTakesFourToEightBytesAnElement) {
  const auto bytes = [](bool split, MomentFormat moments, DType weights) {
    return StateFormat{split, moments, 0, /*keeps_exp_avg_sq=*/false}.bytes_per_element(weights);
  };
  EXPECT_EQ(bytes(false, MomentFormat::f32, DType::bf16), 8u);
  EXPECT_EQ(bytes(true, MomentFormat::f32, DType::bf16), 6u);
  EXPECT_EQ(bytes(true, MomentFormat::bf16, DType::bf16), 4u);
  EXPECT_EQ(bytes(true, MomentFormat::bf16, DType::f32), 6u);
}

/// Bytes of states per element of a part.
std::uint32_t part_bytes(const std::vector<TensorSpec>& tensors, std::uint64_t chunk_bytes, bool split = false,
                         bool nvme = true) {
  return layout_options(tensors, {split}, chunk_bytes, nvme).state_bytes;
}

TEST(LayoutOptions, PartsOfStatesAreAsLargeAsChunksWhereThereAreNotTooMany) {
  const std::vector<TensorSpec> billion = {{1'000'000'000, DType::bf16, true}};
  EXPECT_EQ(part_bytes(billion, 32 * kMiB), 12u) << "358 parts";
  EXPECT_EQ(part_bytes(billion, 32 * kMiB, true), 10u);
  EXPECT_EQ(part_bytes(billion, 4 * kMiB), 12u) << "2861 parts";
  EXPECT_EQ(part_bytes(billion, 32 * kMiB, false, false), 0u) << "no NVMe";
  EXPECT_EQ(part_bytes(billion, 4 * kMiB - 1), 0u) << "small chunks";
  std::vector<TensorSpec> more(20, billion.front());
  EXPECT_EQ(part_bytes(more, 32 * kMiB), 6u) << "7153 parts, twice as large 3577";
  EXPECT_EQ(part_bytes(more, 32 * kMiB, true), 5u);
  more.resize(30, billion.front());
  EXPECT_EQ(part_bytes(more, 32 * kMiB), 4u);
  EXPECT_EQ(part_bytes(more, 32 * kMiB, true), 0u)
      << "4470 of parts of two chunks' size, and three are no whole number";
  more.resize(40, billion.front());
  EXPECT_EQ(part_bytes(more, 32 * kMiB), 0u) << "4768 even of parts of three chunks' size";
  EXPECT_EQ(layout_options(more, {}, 32 * kMiB, true).chunk_bytes, 32 * kMiB);
}

}  // namespace
}  // namespace castor
