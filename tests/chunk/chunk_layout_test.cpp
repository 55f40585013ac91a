// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_layout.h>
#include <castor/memory/bytes.h>

#include <gtest/gtest.h>

#include <random>

namespace castor {
namespace {

TEST(PlanLayout, KeepsTheOrderAndFillsAChunkBeforeTheNext) {
  const TensorSpec specs[] = {{256, DType::bf16, true}, {100, DType::bf16, true}, {256, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {1024});
  ASSERT_EQ(layout.chunks.size(), 2u);
  EXPECT_EQ(layout.chunks[0].tensors, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(layout.tensors[1].offset, 256u);
  EXPECT_EQ(layout.chunks[0].numel, 512u);
  EXPECT_EQ(layout.tensors[2].chunk, 1u);
  EXPECT_EQ(layout.tensors[2].offset, 0u);
}

TEST(PlanLayout, ATensorLargerThanAChunkGetsOneOfItsOwn) {
  const TensorSpec specs[] = {{10, DType::bf16, true}, {5000, DType::bf16, true}, {10, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {1024});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.chunks[1].tensors, (std::vector<std::uint32_t>{1}));
}

TEST(PlanLayout, NeverMixesDtypesOrFrozenWithTrainable) {
  const TensorSpec specs[] = {
      {8, DType::bf16, true}, {8, DType::f32, true}, {8, DType::bf16, false}, {8, DType::bf16, true}};
  const ChunkLayout layout = plan_layout(specs, {});
  ASSERT_EQ(layout.chunks.size(), 3u);
  EXPECT_EQ(layout.tensors[0].chunk, layout.tensors[3].chunk);
  EXPECT_FALSE(layout.chunks[layout.tensors[2].chunk].trainable);
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
    std::vector<std::uint64_t> end(layout.chunks.size(), 0);
    for (std::size_t id = 0; id < specs.size(); ++id) {
      const TensorPlace& place = layout.tensors[id];
      const ChunkShape& chunk = layout.chunks[place.chunk];
      EXPECT_EQ(chunk.dtype, specs[id].dtype);
      EXPECT_EQ(chunk.trainable, specs[id].trainable);
      EXPECT_EQ(place.offset * 2 % kTensorAlignBytes, 0u);
      EXPECT_GE(place.offset, end[place.chunk]) << "overlaps the tensor before it";
      EXPECT_LT(place.offset, end[place.chunk] + 256) << "leaves more room than alignment asks for";
      end[place.chunk] = place.offset + place.numel;
    }
    for (std::size_t i = 0; i < layout.chunks.size(); ++i) {
      EXPECT_LT(layout.chunks[i].numel - end[i], 256u);
      const bool several = layout.chunks[i].tensors.size() > 1;
      EXPECT_TRUE(!several || layout.chunks[i].numel * size_bytes(layout.chunks[i].dtype) <= options.chunk_bytes);
    }
  }
}

}  // namespace
}  // namespace castor
