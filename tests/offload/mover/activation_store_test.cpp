// SPDX-License-Identifier: Apache-2.0
#include <castor/mover/activation_store.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>

#include "../../support/deferred_device.h"
#include "../../support/scheduled_mover.h"

namespace castor {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(std::uint8_t first, std::uint64_t n_bytes = kBlockBytes) {
  Bytes bytes(n_bytes);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

/// A model of blocks with one chunk of parameters each, whose inputs are kept for backward.
struct CheckpointedModel {
  CheckpointedModel(std::uint64_t n_device, std::uint64_t n_host, bool with_spill = true,
                    std::unique_ptr<Device> device = make_cpu_device())
      : tiers(n_device * kBlockBytes, n_host * kBlockBytes, with_spill, std::move(device)) {}

  /// Parameters of `n` blocks.
  void add(std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) {
      params.push_back(tiers.chunks.add(ChunkKind::payload, kBlockBytes, "chunk"));
      std::memset(mover.open(params.back(), Tier::host).value().data, static_cast<int>(i), kBlockBytes);
      tiers.chunks.written(params.back(), Tier::host);
    }
  }

  void use(MomentKind kind, std::uint32_t block) {
    const std::array needs = {Need{params.at(block), Tier::device, Access::read}};
    scheduler.begin({kind, block}, needs).value();
    EXPECT_EQ(std::to_integer<std::uint32_t>(*tiers.chunks.chunk(params[block]).at(Tier::device).buffer.data()), block);
    scheduler.end(needs);
  }

  /// Keeps an activation and overwrites the source, as autograd frees its own.
  std::optional<ChunkId> keep(const Bytes& bytes) {
    Bytes source = bytes;
    const auto kept = store.keep(source.data(), source.size()).value();
    std::fill(source.begin(), source.end(), std::uint8_t{0xee});
    return kept;
  }

  /// Evicts a chunk so that its bytes are in `lowest` alone.
  void sink(ChunkId kept, Tier lowest) {
    for (const Tier tier : {Tier::device, Tier::host}) {
      if (index(tier) >= index(lowest)) return;
      mover.push_down(kept, tier).value();
      tiers.chunks.drain().value();
      (void)tiers.chunks.reap(tier).value();
      EXPECT_EQ(tiers.chunks.chunk(kept).at(tier).buffer.data(), nullptr);
    }
  }

  Bytes recall(ChunkId kept) {
    const BufferView view = store.recall(kept).value();
    const auto* data = reinterpret_cast<const std::uint8_t*>(view.data);
    return {data, data + tiers.chunks.chunk(kept).n_bytes};
  }

  /// One step of `n` blocks after unit 0, which is not a block. Returns the chunks that were used, in their order.
  std::vector<ChunkId> step(std::uint32_t n, std::uint8_t seed) {
    std::vector<ChunkId> kept;
    use(MomentKind::forward, 0);
    for (std::uint32_t block = 1; block <= n; ++block) {
      kept.push_back(keep(bytes_of(static_cast<std::uint8_t>(seed + block))).value());
      use(MomentKind::forward, block);
    }
    for (std::uint32_t block = n; block > 0; --block) {
      EXPECT_EQ(recall(kept[block - 1]), bytes_of(static_cast<std::uint8_t>(seed + block))) << "block " << block;
      use(MomentKind::backward, block);
      store.forget(kept[block - 1]).value();
    }
    scheduler.end_iteration();
    return kept;
  }

  Tiers tiers;
  StatefulTensorMgr mover{mover_parts(tiers)};
  Scheduler scheduler{scheduler_parts(mover, tiers)};
  ActivationStore store{{tiers.chunks, mover, *tiers.compute}};
  std::vector<ChunkId> params;
};

TEST(ActivationStore, WhatIsKeptComesBackFromEveryTier) {
  CheckpointedModel model(2, 4);
  model.add(1);
  model.use(MomentKind::forward, 0);
  for (const Tier lowest : kTiers) {
    const Bytes bytes = bytes_of(7, 1000);
    const ChunkId kept = model.keep(bytes).value();
    model.sink(kept, lowest);
    EXPECT_TRUE(model.tiers.chunks.chunk(kept).resident(lowest)) << name(lowest);
    EXPECT_EQ(model.recall(kept), bytes) << name(lowest);
    model.store.forget(kept).value();
    EXPECT_FALSE(model.tiers.chunks.chunk(kept).has_contents());
  }
  EXPECT_EQ(model.store.peak_bytes(), 1000u);
}

TEST(ActivationStore, WhatHasNoRoomIsNotKept) {
  CheckpointedModel model(2, 1, false);
  model.add(1);
  model.use(MomentKind::forward, 0);
  ASSERT_TRUE(model.keep(bytes_of(1)));
  const auto before = model.tiers.chunks.ids().size();
  EXPECT_FALSE(model.keep(bytes_of(2, 3 * kBlockBytes)));
  EXPECT_EQ(model.store.keep(bytes_of(3, 3 * kBlockBytes).data(), 3 * kBlockBytes).value(), std::nullopt);
  EXPECT_EQ(model.tiers.chunks.ids().size(), before + 1) << "the chunk that found no room is tried again";
  EXPECT_EQ(model.store.peak_bytes(), kBlockBytes);
}

TEST(ActivationStore, WhatFoundNoRoomIsNoAccessOfTheTrace) {
  CheckpointedModel model(2, 1, false);
  model.add(1);
  model.use(MomentKind::forward, 0);
  ASSERT_FALSE(model.keep(bytes_of(2, 3 * kBlockBytes)));
  model.scheduler.end_iteration();
  const AccessTrace& trace = trace_of(model.scheduler);
  ASSERT_EQ(trace.n_moments(), 1u);
  ASSERT_EQ(trace.needs(0).size(), 1u) << "the parameters alone";
  EXPECT_EQ(trace.needs(0)[0].chunk, model.params[0]);
}

/// The thread itself, whose copies all fail.
class FailingCopies final : public Stream {
 public:
  Event copy(void*, const void*, std::uint64_t) override {
    auto state = std::make_shared<HostEventState>();
    state->complete(Error{ErrorKind::io, "scripted failure of a copy"});
    return Event(state);
  }
  Result<void> wait(const Event& event) override { return event.wait(); }
  Event record() override { return Event(); }
  std::unique_ptr<StreamTime> time() override { return nullptr; }
  Result<void> synchronize() override { return {}; }
};

TEST(ActivationStore, ACopyThatFailsHoldsNoMemory) {
  CheckpointedModel model(1, 4);
  model.add(1);
  FailingCopies failing;
  ActivationStore store({model.tiers.chunks, model.mover, failing});
  model.use(MomentKind::forward, 0);
  EXPECT_EQ(store.keep(bytes_of(1).data(), kBlockBytes).error().kind, ErrorKind::io);
  EXPECT_TRUE(model.keep(bytes_of(2))) << "the device has room for one chunk, and nothing pins it";
}

TEST(ActivationStore, WhatBelongsToNoMomentIsNotKept) {
  CheckpointedModel model(4, 4);
  model.add(1);
  EXPECT_FALSE(model.keep(bytes_of(1)));
  model.use(MomentKind::forward, 0);
  EXPECT_TRUE(model.keep(bytes_of(1)));
}

TEST(ActivationStore, AFailedReadIsTheRecallsError) {
  CheckpointedModel model(2, 4);
  model.add(1);
  model.use(MomentKind::forward, 0);
  const ChunkId kept = model.keep(bytes_of(1)).value();
  model.sink(kept, Tier::nvme);
  model.tiers.spill.fail_read = model.tiers.spill.n_reads + 1;
  const auto recalled = model.store.recall(kept);
  ASSERT_FALSE(recalled.ok());
  EXPECT_EQ(recalled.error().kind, ErrorKind::io);
  model.store.forget(kept).value();
}

// Six inputs and seven chunks of parameters where the device holds four: the plan evicts some from the device.
TEST(ActivationStore, PlannedStepsUseTheSameChunksAndMoveWhatThePlanSays) {
  for (const bool deferred : {false, true}) {
    CheckpointedModel model(4, 16, true, deferred ? test::make_deferred_device() : make_cpu_device());
    model.add(7);
    const auto first = model.step(6, 0);
    for (std::uint8_t seed = 1; seed < 4; ++seed) EXPECT_EQ(model.step(6, seed), first);
    const StepPlan* const plan = plan_of(model.scheduler);
    ASSERT_NE(plan, nullptr);
    const LinkBytes before = model.tiers.chunks.moved();
    for (std::uint8_t seed = 4; seed < 8; ++seed) EXPECT_EQ(model.step(6, seed), first);
    const LinkBytes after = model.tiers.chunks.moved();
    EXPECT_EQ(plan_of(model.scheduler), plan);
    EXPECT_GT(plan->plan.moved.d2h, 0u) << "an input goes down";
    EXPECT_EQ(after.d2h - before.d2h, 4 * plan->plan.moved.d2h);
    EXPECT_EQ(after.h2d - before.h2d, 4 * plan->plan.moved.h2d);
    EXPECT_EQ(model.store.peak_bytes(), 6 * kBlockBytes);
  }
}

}  // namespace
}  // namespace castor
