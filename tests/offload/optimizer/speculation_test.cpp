// SPDX-License-Identifier: Apache-2.0
// Updates that are taken back leave nothing behind, in whatever order the team works.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../../support/shuffled_team.h"
#include "optimizer_world.h"

namespace castor::testing {
namespace {

class TakenBack : public ::testing::TestWithParam<UpdateOptions> {};

/// The first norm is below the bound, so that the second step updates before its norm is known, which is above it.
TEST_P(TakenBack, LeavesNoTrustRatioBehind) {
  for (std::uint64_t seed = 0; seed < 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::ShuffledTeam team(seed);
    const std::vector<TensorSpec> specs = {{9000, DType::bf16, true, UnitId{0}},  // in several tiles
                                           {300, DType::bf16, true, UnitId{0}}};
    OptimizerWorld world(specs, {.speculates = true, .beside = &team});
    ASSERT_GT(world.layout.chunks[PayloadId{0}].n_tiles(), 1u);
    world.start(Tier::host).value();
    StepOptions options;
    options.update = GetParam();
    options.max_norm = 1;
    for (const float size : {1e-4f, 1e4f}) {
      world.optimizer->announce(options).value();
      for (std::uint32_t tensor = 0; tensor < specs.size(); ++tensor)
        world.gradient(tensor, std::vector<float>(specs[tensor].numel, size)).value();
      world.optimizer->update_early().value();
      const StepScale scale = world.step(options).value();
      EXPECT_EQ(scale.grad_scale < 1, size > 1);
      EXPECT_EQ(world.optimizer->speculates(), size < 1);
    }
    std::size_t n_undo = 0;
    for (const ChunkId id : world.tiers.chunks.ids()) n_undo += world.tiers.chunks.chunk(id).kind == ChunkKind::undo;
    EXPECT_GT(n_undo, 0u) << "nothing was updated before the norm was known";
    world.expect_same_bits();
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, TakenBack,
                         ::testing::Values(UpdateOptions(SgdOptions{.lr = 0.1, .trust_coefficient = 0.25}),
                                           UpdateOptions(LambOptions{})));

}  // namespace
}  // namespace castor::testing
