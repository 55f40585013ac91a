// SPDX-License-Identifier: Apache-2.0
// A machine that is briefly out of memory, at every allocation of a training in turn.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "optimizer_world.h"

namespace castor {
namespace {

using testing::OptimizerWorld;
using testing::random_gradient;

constexpr DType kTypes[] = {DType::bf16, DType::f32, DType::f16};

Result<void> use_all(OptimizerWorld& world) {
  for (const PayloadId chunk : world.layout.chunks.ids()) {
    const std::array needs = {Need{world.optimizer->states().payload(chunk), Tier::device, Access::read}};
    CASTOR_TRY(world.scheduler.begin({MomentKind::forward, number(chunk)}, needs));
    world.scheduler.end(needs);
  }
  return {};
}

/// Three steps with clipping, the second one with two micro-batches.
Result<void> train(OptimizerWorld& world) {
  std::mt19937_64 random(5);
  CASTOR_TRY(world.start({Tier::host, Tier::device, Tier::nvme, Tier::host}));
  for (int step = 0; step < 3; ++step) {
    CASTOR_TRY(use_all(world));
    for (int micro_batch = 0; micro_batch < 1 + step % 2; ++micro_batch)
      for (std::uint32_t tensor = 0; tensor < world.specs.size(); ++tensor)
        CASTOR_TRY(world.gradient(tensor, random_gradient(random, world.specs[tensor].numel)));
    CASTOR_TRY(world.step({{}, 1, 1}));
  }
  return {};
}

struct Outcome {
  bool refused = false;  ///< the training reached the allocation that is refused
  bool failed = false;
};

Outcome train_refused_at(std::uint64_t at) {
  std::vector<TensorSpec> tensors;
  for (std::uint32_t i = 0; i < 4; ++i) tensors.push_back({500, kTypes[i % 3], true});
  test::Refusal refusal{at};
  OptimizerWorld::Sizes sizes{1024, 40 << 10, 40 << 10};
  sizes.refusal = &refusal;
  std::optional<OptimizerWorld> world;
  try {
    world.emplace(tensors, sizes);
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().kind, ErrorKind::does_not_fit);
    return {true, true};
  }
  EXPECT_EQ(world->layout.chunks.size(), 4u);
  const auto trained = train(*world);
  if (trained.ok())
    world->expect_same_bits();
  else
    EXPECT_EQ(trained.error().kind, ErrorKind::does_not_fit) << trained.error().message;
  const Outcome outcome{refusal.n_asked > at, !trained.ok()};
  world->optimizer.reset();  // it frees the gradients that it holds
  world->source.expect_each_freed_once();
  return outcome;
}

TEST(RefusedAllocations, EachEndsInAnErrorOrChangesNoBit) {
  int n_failed = 0, n_survived = 0;
  for (std::uint64_t at = 0;; ++at) {
    SCOPED_TRACE("allocation " + std::to_string(at));
    const Outcome outcome = train_refused_at(at);
    if (!outcome.refused) break;
    ++(outcome.failed ? n_failed : n_survived);
    ASSERT_LT(at, 10'000u);
  }
  EXPECT_GT(n_failed, 0);
  EXPECT_GT(n_survived, 0) << "where something can be evicted it is";
}

}  // namespace
}  // namespace castor
