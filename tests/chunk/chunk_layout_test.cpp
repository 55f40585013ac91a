// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace castor {
namespace {

TEST(PlanLayout, KeepsTheOrderAndFillsAChunkBeforeTheNext) {
  const TensorSpec specs[] = {{256, DType::bf16, true}, {100, DType::bf16, true}, {256, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {1024});
  ASSERT_EQ(layout.chunks.size(), 2u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].tensors, (std::vector{TensorId{0}, TensorId{1}}));
  EXPECT_EQ(layout.tensors[TensorId{1}].offset, 256u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].numel, 512u);
  EXPECT_EQ(layout.tensors[TensorId{2}].chunk, PayloadId{1});
  EXPECT_EQ(layout.tensors[TensorId{2}].offset, 0u);
}

TEST(PlanLayout, ATensorLargerThanAChunkGetsOneOfItsOwn) {
  const TensorSpec specs[] = {{10, DType::bf16, true}, {5000, DType::bf16, true}, {10, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {1024});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.chunks[PayloadId{1}].tensors, (std::vector{TensorId{1}}));
}

TEST(PlanLayout, BytesStartAtTheTensorAlignmentInChunksOfTheirOwn) {
  const TensorSpec specs[] = {{3, DType::u8, false}, {256, DType::f32, false}, {5, DType::u8, false}};
  const ChunkLayout layout = plan_layout(specs, {4096});
  ASSERT_EQ(layout.chunks.size(), 2u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].tensors, (std::vector{TensorId{0}, TensorId{2}}));
  EXPECT_EQ(layout.tensors[TensorId{2}].offset, kTensorAlignBytes);
  EXPECT_EQ(layout.chunks[PayloadId{0}].numel, 2 * kTensorAlignBytes);
}

// Each tensor has a chunk of its own; the second is 0.05 % smaller than the first, the third 0.5 %.
TEST(PlanLayout, AChunkHardlySmallerThanAnotherBecomesAsLarge) {
  const std::vector<TensorSpec> tensors = {{256 * 2000}, {256 * 1999}, {256 * 1990}};
  const ChunkLayout layout = plan_layout(tensors, {256 * 4});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].numel, 256u * 2000);
  EXPECT_EQ(layout.chunks[PayloadId{1}].numel, 256u * 2000);
  EXPECT_EQ(layout.chunks[PayloadId{2}].numel, 256u * 1990);
}

TEST(PlanLayout, TheStatesOfALargeTensorLieInEqualTilesNoLargerThanAChunk) {
  const TensorSpec specs[] = {{500, DType::bf16, true}, {5000, DType::bf16, true}, {1500, DType::f32, true}};
  const ChunkLayout layout = plan_layout(specs, {4096});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].n_tiles(), 1u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].tile(TileId{0}).numel, 512u);
  ASSERT_EQ(layout.chunks[PayloadId{1}].n_tiles(), 3u) << "10240 bytes";
  EXPECT_EQ(layout.chunks[PayloadId{1}].tile(TileId{0}).numel, 1792u) << "a third of 5120 elements, aligned";
  EXPECT_EQ(layout.chunks[PayloadId{1}].tile(TileId{2}).first, 3584u);
  EXPECT_EQ(layout.chunks[PayloadId{1}].tile(TileId{2}).numel, 1536u);
  EXPECT_EQ(layout.chunks[PayloadId{2}].n_tiles(), 2u) << "6144 bytes";
}

TEST(PlanLayout, StatesMayLieInPartsAsLargeAsChunks) {
  const TensorSpec specs[] = {{500, DType::bf16, true}, {5000, DType::bf16, true}, {700, DType::f32, true}};
  const ChunkLayout layout = plan_layout(specs, {4096, 1, 12});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.chunks[PayloadId{0}].numel, 1536u) << "a multiple of six times 256";
  EXPECT_EQ(layout.chunks[PayloadId{0}].tile(TileId{0}).numel * 12, layout.chunks[PayloadId{0}].numel * 2);
  EXPECT_EQ(layout.chunks[PayloadId{0}].n_tiles(), 6u);
  EXPECT_EQ(layout.chunks[PayloadId{1}].numel, 6144u);
  EXPECT_EQ(layout.chunks[PayloadId{1}].tile(TileId{0}).numel, 512u) << "a sixth of 2048 elements, aligned";
  EXPECT_EQ(layout.chunks[PayloadId{1}].n_tiles(), 12u);
  EXPECT_EQ(layout.chunks[PayloadId{2}].numel, 768u) << "three parts where weights take four bytes";
  EXPECT_EQ(layout.chunks[PayloadId{2}].n_tiles(), 3u);
}

TEST(PlanLayout, NeverMixesDtypesOrFrozenWithTrainable) {
  const TensorSpec specs[] = {
      {8, DType::bf16, true}, {8, DType::f32, true}, {8, DType::bf16, false}, {8, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.tensors[TensorId{0}].chunk, layout.tensors[TensorId{3}].chunk);
  EXPECT_FALSE(layout.chunks[layout.tensors[TensorId{2}].chunk].trainable);
}

TEST(PlanLayout, RefusesATensorWithoutElements) {
  const TensorSpec specs[] = {{0, DType::bf16, true}};
  EXPECT_THROW((void)plan_layout(specs, {}), ContractViolation);
}

TEST(PlanLayout, EveryRandomLayoutIsAlignedDisjointAndTight) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<TensorSpec> specs(1 + random() % 60);
    for (TensorSpec& spec : specs)
      spec = {1 + random() % 4000, random() % 2 ? DType::bf16 : DType::f32, random() % 4 != 0};
    const LayoutOptions options{1024 + random() % 20000};
    const ChunkLayout layout = plan_layout(specs, options);
    IndexedVector<PayloadId, std::uint64_t> end(layout.chunks.size(), 0);
    for (const TensorId id : layout.tensors.ids()) {
      const TensorPlace& place = layout.tensors[id];
      const ChunkShape& chunk = layout.chunks[place.chunk];
      EXPECT_EQ(chunk.dtype, specs[index(id)].dtype);
      EXPECT_EQ(chunk.trainable, specs[index(id)].trainable);
      EXPECT_EQ(place.offset * 2 % kTensorAlignBytes, 0u);
      EXPECT_GE(place.offset, end[place.chunk]) << "overlaps the tensor before it";
      EXPECT_LT(place.offset, end[place.chunk] + 256) << "leaves more room than alignment asks for";
      end[place.chunk] = place.offset + place.numel;
    }
    for (const PayloadId chunk : layout.chunks.ids()) {
      EXPECT_LT(layout.chunks[chunk].numel - end[chunk], 256u);
      const std::uint64_t n_bytes = layout.chunks[chunk].numel * size_bytes(layout.chunks[chunk].dtype);
      EXPECT_TRUE(layout.chunks[chunk].tensors.size() == 1 || n_bytes <= options.chunk_bytes);
    }
  }
}

TEST(PlanLayout, AUnitsTensorsShareAChunkWhereOneCanHoldThem) {
  const TensorSpec specs[] = {
      {256, DType::bf16, true, UnitId{0}}, {256, DType::bf16, true, UnitId{1}}, {256, DType::bf16, true, UnitId{1}}};
  const ChunkLayout layout = plan_layout(specs, {1024});
  EXPECT_EQ(layout.chunks[PayloadId{0}].tensors, (std::vector{TensorId{0}}));
  EXPECT_EQ(layout.chunks[PayloadId{1}].tensors, (std::vector{TensorId{1}, TensorId{2}}));
  EXPECT_EQ(plan_layout(specs, {512}).chunks.size(), 3u) << "one that no chunk can hold is cut";
}

TEST(PlanLayout, EveryRankGetsAShardOfWholeAlignmentUnits) {
  const TensorSpec specs[] = {{1000, DType::bf16, true}, {5000, DType::f32, true}};
  for (const ChunkShape& chunk : plan_layout(specs, {1 << 20, 8}).chunks) EXPECT_EQ(chunk.numel % (8 * 256), 0u);
  EXPECT_THROW((void)plan_layout(specs, {1 << 20, 0}), ContractViolation);
}

/// A table, `n` blocks of three units, and a head.
std::vector<TensorSpec> blocks(std::uint32_t n) {
  std::vector<TensorSpec> specs = {{50'000, DType::bf16, true, UnitId{0}}};
  for (std::uint32_t i = 0; i < n; ++i) {
    specs.push_back({300, DType::bf16, true, UnitId{3 * i + 1}});
    specs.push_back({3000, DType::bf16, true, UnitId{3 * i + 2}});
    specs.push_back({7000, DType::bf16, true, UnitId{3 * i + 3}});
    specs.push_back({70, DType::bf16, true, UnitId{3 * i + 3}});
  }
  specs.push_back({9000, DType::bf16, true, UnitId{3 * n + 1}});
  return specs;
}

std::size_t n_sizes(const ChunkLayout& layout) {
  std::set<std::uint64_t> sizes;
  for (const ChunkShape& chunk : layout.chunks) sizes.insert(chunk.numel);
  return sizes.size();
}

TEST(BestChunkBytes, GivesTheChunksOfRepeatedBlocksOneSize) {
  const auto specs = blocks(40);
  for (const std::uint64_t most_bytes : {22'016, 30'000, 47'000, 64'000, 99'999}) {
    const std::uint64_t best = best_chunk_bytes(specs, {most_bytes});
    EXPECT_LE(best, most_bytes);
    EXPECT_GE(best, most_bytes / 4);
    EXPECT_LE(n_sizes(plan_layout(specs, {best})), 3u) << most_bytes;
  }
}

TEST(BestChunkBytes, NoSizeThereIsMakesFewerSizes) {
  const auto specs = blocks(12);
  const std::uint64_t best = best_chunk_bytes(specs, {40'000});
  for (std::uint64_t tried = 10'000; tried <= 40'000; tried += 2)
    ASSERT_GE(n_sizes(plan_layout(specs, {tried})), n_sizes(plan_layout(specs, {best}))) << tried;
}

TEST(BestChunkBytes, OfNothingInParticularIsTheMost) {
  EXPECT_EQ(best_chunk_bytes({}, {1000}), 1000u);
  const TensorSpec one[] = {{5000, DType::f32, true}};
  EXPECT_EQ(plan_layout(one, {best_chunk_bytes(one, {1000})}).chunks.size(), 1u);
}

}  // namespace
}  // namespace castor
