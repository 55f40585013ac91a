// SPDX-License-Identifier: Apache-2.0
#include <castor/optimizer/gradient_store.h>

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>
#include <tuple>

#include "optimizer_world.h"

namespace castor {
namespace {

using testing::bits_of;
using testing::elements_of;
using testing::GradientSource;
using testing::NaiveSum;
using testing::random_gradient;
using testing::widened;

constexpr std::uint64_t kNumel[] = {300, 5, 700};

/// One chunk of three tensors, and the expected sum of each.
struct Gradients {
  Gradients(DType type, Tier gather, std::uint64_t device_bytes = Budget::kUnlimited,
            std::uint64_t host_bytes = Budget::kUnlimited, bool deferred = false)
      : dtype(type),
        tier(gather),
        layout(plan_layout(specs(type), {1 << 20})),
        team(deferred ? std::make_unique<test::DeferredTeam>() : make_host_team(2).value()),
        tiers(device_bytes, host_bytes, true, deferred ? test::make_deferred_device() : make_cpu_device()) {
    store->set_tier(PayloadId{0}, tier);
  }

  static std::vector<TensorSpec> specs(DType type) {
    return {{kNumel[0], type, true}, {kNumel[1], type, true}, {kNumel[2], type, true}};
  }

  Result<void> try_add(std::uint32_t tensor) {
    const auto elements = elements_of(random_gradient(random, kNumel[tensor]), dtype);
    sums[tensor].add(widened(elements, dtype));
    return store->add(TensorId{tensor}, source.hand_out(elements));
  }
  void add(std::uint32_t tensor) { try_add(tensor).value(); }

  std::vector<std::uint8_t> held(std::uint32_t tensor) {
    store->finish_sum(PayloadId{0}).value();
    const std::uint64_t width = size_bytes(store->dtype(PayloadId{0}));
    const std::uint64_t at = layout.tensors[TensorId{tensor}].offset * width;
    const std::byte* data = mover.look(store->chunk(PayloadId{0}), tier).value().data + at;
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(data);
    return {bytes, bytes + kNumel[tensor] * width};
  }

  void expect_sum(std::uint32_t tensor) {
    const auto got = widened(held(tensor), store->dtype(PayloadId{0}));
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(bits_of(got[i]), bits_of(sums[tensor].values[i])) << "tensor " << tensor << ", element " << i;
  }

  /// Gradients that have been read are freed when the store looks next.
  void expect_given_back() {
    (void)tiers.down->synchronize();
    store->in_flight().free_read();
    source.expect_each_freed_once();
  }

  void end_step() const {
    store->clear(PayloadId{0}).value();
    store->end_step();
  }

  void evict() {
    mover.push_down(store->chunk(PayloadId{0}), Tier::device).value();
    mover.push_down(store->chunk(PayloadId{0}), Tier::host).value();
    tiers.chunks.reap(Tier::device).value();
    reap_one(tiers.chunks, Tier::host).value();
  }

  std::uint64_t chunk_bytes(DType type) const { return layout.chunks[PayloadId{0}].numel * size_bytes(type); }

  const DType dtype;
  const Tier tier;
  const ChunkLayout layout;
  GradientSource source;  // outlives the store, whose destructor frees gradients
  const std::unique_ptr<HostTeam> team;
  Tiers tiers;
  StatefulTensorMgr mover{mover_parts(tiers)};
  std::unique_ptr<GradientStore> store =
      GradientStore::make({layout, tiers.chunks, mover, *tiers.device, *tiers.compute, *tiers.down, *team}).value();
  std::array<NaiveSum, 3> sums;
  std::mt19937_64 random{31};
};

class GradientStoreOn : public ::testing::TestWithParam<std::tuple<DType, Tier>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  Tier tier() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(On, GradientStoreOn,
                         ::testing::Combine(::testing::Values(DType::bf16, DType::f16, DType::f32),
                                            ::testing::Values(Tier::device, Tier::host)),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) + "_" + name(std::get<1>(info.param));
                         });

TEST_P(GradientStoreOn, KeepsTheDtypeInWhichGradientsArrive) {
  Gradients gradients(dtype(), tier());
  EXPECT_FALSE(gradients.store->any(PayloadId{0}));
  gradients.add(2);
  EXPECT_TRUE(gradients.store->any(PayloadId{0}));
  gradients.add(0);
  EXPECT_FALSE(gradients.store->complete(PayloadId{0}));
  EXPECT_FALSE(gradients.store->has(TensorId{1}));
  EXPECT_EQ(gradients.store->dtype(PayloadId{0}), dtype());
  EXPECT_EQ(gradients.tiers.chunks.chunk(gradients.store->chunk(PayloadId{0})).n_bytes, gradients.chunk_bytes(dtype()));
  gradients.expect_sum(0);
  gradients.expect_sum(2);
  gradients.add(1);
  EXPECT_TRUE(gradients.store->complete(PayloadId{0}));
}

TEST_P(GradientStoreOn, WhatGoesDownToTheHostIsCounted) {
  Gradients world(dtype(), tier());
  for (std::uint32_t tensor = 0; tensor < 3; ++tensor) world.add(tensor);
  const std::uint64_t n_bytes = (kNumel[0] + kNumel[1] + kNumel[2]) * size_bytes(dtype());
  EXPECT_EQ(world.tiers.chunks.moved().d2h, tier() == Tier::host ? n_bytes : 0);
}

TEST_P(GradientStoreOn, ASecondGradientBeforeAnothersFirstWidensTheChunk) {
  Gradients gradients(dtype(), tier());
  gradients.add(0);
  const ChunkId narrow = gradients.store->chunk(PayloadId{0});
  gradients.add(0);
  gradients.store->finish_sum(PayloadId{0}).value();
  EXPECT_EQ(gradients.store->dtype(PayloadId{0}), DType::f32);
  EXPECT_EQ(gradients.tiers.chunks.chunk(gradients.store->chunk(PayloadId{0})).n_bytes,
            gradients.chunk_bytes(DType::f32));
  EXPECT_FALSE(gradients.tiers.chunks.chunk(narrow).has_contents());
  EXPECT_FALSE(gradients.store->has(TensorId{1}));
  gradients.expect_sum(0);
}

TEST_P(GradientStoreOn, AFirstGradientAfterWideningReplacesWhatLayThere) {
  Gradients gradients(dtype(), tier());
  gradients.add(0);
  gradients.add(0);
  gradients.add(2);
  EXPECT_TRUE(gradients.store->has(TensorId{2}));
  gradients.expect_sum(2);
  gradients.expect_sum(0);
}

TEST_P(GradientStoreOn, AnyOrderHasTheBitsOfSummingInFp32FromTheStart) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Gradients gradients(dtype(), tier(), Budget::kUnlimited, Budget::kUnlimited, /*deferred=*/seed % 2 == 0);
    gradients.random.seed(seed);
    const std::uint64_t n_gradients = 1 + gradients.random() % 12;
    for (std::uint64_t i = 0; i < n_gradients; ++i) {
      gradients.add(static_cast<std::uint32_t>(gradients.random() % 3));
      if (gradients.random() % 3 == 0) gradients.evict();
    }
    for (std::uint32_t tensor = 0; tensor < 3; ++tensor)
      if (gradients.store->has(TensorId{tensor})) gradients.expect_sum(tensor);
    gradients.end_step();
    gradients.expect_given_back();
  }
}

TEST_P(GradientStoreOn, WhatSpilledInTheMiddleOfBackwardComesBack) {
  Gradients gradients(dtype(), tier());
  gradients.add(0);
  gradients.evict();
  const Chunk& chunk = gradients.tiers.chunks.chunk(gradients.store->chunk(PayloadId{0}));
  ASSERT_FALSE(chunk.resident(Tier::device) || chunk.resident(Tier::host));
  gradients.add(1);
  gradients.expect_sum(0);
  gradients.expect_sum(1);
  gradients.evict();
  gradients.add(0);  // widens gradients that are on NVMe
  gradients.expect_sum(0);
  gradients.expect_sum(1);
}

TEST_P(GradientStoreOn, NobodyWaitsForSumsOnTheHost) {
  if (tier() != Tier::host) GTEST_SKIP() << "on the device they are queued";
  Gradients gradients(dtype(), tier(), Budget::kUnlimited, Budget::kUnlimited, /*deferred=*/true);
  const auto& team = dynamic_cast<const test::DeferredTeam&>(*gradients.team);
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch)
    for (const std::uint32_t tensor : {2u, 1u, 0u}) {
      gradients.add(tensor);
      if (micro_batch == 1) {
        EXPECT_EQ(team.n_run(), 0u) << "the sum of the first micro-batch, and then of both";
      }
    }
  for (const std::uint32_t tensor : {0u, 1u, 2u}) gradients.expect_sum(tensor);
  EXPECT_EQ(team.n_run(), 3u) << "a job for each micro-batch";
}

TEST_P(GradientStoreOn, ClearForgetsAndTheNextStepStartsNarrow) {
  Gradients gradients(dtype(), tier());
  for (const std::uint32_t tensor : {0u, 0u, 1u}) gradients.add(tensor);
  gradients.end_step();
  gradients.expect_given_back();
  EXPECT_FALSE(gradients.store->any(PayloadId{0}));
  EXPECT_EQ(gradients.store->dtype(PayloadId{0}), dtype());
  for (const ChunkId id : gradients.tiers.chunks.ids()) EXPECT_FALSE(gradients.tiers.chunks.chunk(id).has_contents());
  gradients.sums = {};
  gradients.add(0);
  gradients.expect_sum(0);
}

TEST_P(GradientStoreOn, FreesOnceWhereThereIsNoRoomForTheFirst) {
  Gradients gradients(dtype(), tier(), 100, 100);
  const auto refused = gradients.try_add(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  gradients.store.reset();
  gradients.source.expect_each_freed_once();
}

TEST_P(GradientStoreOn, FreesOnceWhereThereIsNoRoomToWiden) {
  const std::uint64_t room_bytes = (512 + 256 + 768) * (size_bytes(dtype()) + 4) - 1;  // one byte short of both widths
  Gradients gradients(dtype(), tier(), room_bytes, room_bytes);
  gradients.add(0);
  const auto refused = gradients.try_add(0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  gradients.store.reset();
  gradients.source.expect_each_freed_once();
}

TEST_P(GradientStoreOn, OneThatNobodyFreesHasBeenReadWhenTheCallReturns) {
  Gradients gradients(dtype(), tier(), Budget::kUnlimited, Budget::kUnlimited, /*deferred=*/true);
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    auto elements = elements_of(random_gradient(gradients.random, kNumel[0]), dtype());
    gradients.sums[0].add(widened(elements, dtype()));
    ASSERT_TRUE(gradients.store->add(TensorId{0}, {elements.data(), nullptr}).ok());
    std::fill(elements.begin(), elements.end(), std::uint8_t{0x41});
  }
  gradients.expect_sum(0);
}

TEST_P(GradientStoreOn, FreesOnceWhereASpilledChunkCannotBeRead) {
  for (const std::uint32_t tensor : {0u, 1u}) {  // a second gradient, and a first one
    Gradients gradients(dtype(), tier());
    gradients.add(0);
    gradients.evict();
    gradients.tiers.spill.fail_read = gradients.tiers.spill.n_reads + 1;
    const auto failed = gradients.try_add(tensor);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().kind, ErrorKind::io);
    gradients.end_step();
    gradients.expect_given_back();
  }
}

TEST_P(GradientStoreOn, SaysThatAGradientWasLostUntilItIsCleared) {
  Gradients gradients(dtype(), tier());
  gradients.add(0);
  EXPECT_TRUE(gradients.store->intact().ok());
  gradients.evict();
  gradients.tiers.spill.fail_read = gradients.tiers.spill.n_reads + 1;
  ASSERT_FALSE(gradients.try_add(1).ok());
  const auto again = gradients.try_add(1);
  ASSERT_FALSE(again.ok()) << "a sum with a gap";
  EXPECT_EQ(again.error().kind, ErrorKind::io);
  EXPECT_FALSE(gradients.store->intact().ok());
  gradients.end_step();
  EXPECT_TRUE(gradients.store->intact().ok());
  gradients.sums = {};
  gradients.add(1);
  gradients.expect_sum(1);
  gradients.end_step();
  gradients.expect_given_back();
}

TEST(GradientStore, WaitsForTheOldestUntilSoManyBytesAreFree) {
  Gradients gradients(DType::bf16, Tier::host);
  const auto gate = std::make_shared<HostEventState>();  // owners: the test and the stream
  ASSERT_TRUE(gradients.tiers.down->wait(Event(gate)).ok());
  for (const std::uint32_t tensor : {2u, 1u, 0u}) gradients.add(tensor);
  gradients.store->in_flight().free_bytes(0).value();
  EXPECT_EQ(gradients.source.n_freed(), 0);
  EXPECT_EQ(gradients.store->in_flight().n_bytes(), 2 * (kNumel[0] + kNumel[1] + kNumel[2]));
  std::thread opener([&] { gate->complete({}); });
  gradients.store->in_flight().free_bytes(2 * kNumel[2] + 1).value();
  EXPECT_GE(gradients.source.n_freed(), 2) << "the first is one byte short";
  EXPECT_LE(gradients.store->in_flight().n_bytes(), 2 * kNumel[0]);
  gradients.store->in_flight().free_bytes(1 << 20).value();
  EXPECT_EQ(gradients.source.n_freed(), 3) << "there are no more";
  EXPECT_EQ(gradients.store->in_flight().n_bytes(), 0u);
  opener.join();
  for (const std::uint32_t tensor : {0u, 1u, 2u}) gradients.expect_sum(tensor);
}

TEST(GradientStore, KeepsTheChunksOfALayoutApartAndGivesFrozenOnesNone) {
  const std::vector<TensorSpec> specs = {{300, DType::bf16, true}, {300, DType::bf16, false}, {300, DType::f32, true}};
  const ChunkLayout layout = plan_layout(specs, {1 << 20});
  Tiers tiers;
  const auto team = make_host_team(1).value();
  StatefulTensorMgr mover(mover_parts(tiers));
  const auto store =
      GradientStore::make({layout, tiers.chunks, mover, *tiers.device, *tiers.compute, *tiers.down, *team}).value();
  EXPECT_EQ(tiers.chunks.ids().size(), 6u) << "three for each that is trained";
  EXPECT_NE(store->chunk(PayloadId{0}), store->chunk(PayloadId{2}));
}

}  // namespace
}  // namespace castor
