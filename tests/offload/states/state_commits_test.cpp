// SPDX-License-Identifier: Apache-2.0
// Trainings whose spill store is their checkpoint, stopped and continued, beside the same training in straight lines.
#include <castor/states/state_commits.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "../../support/drives/faulty_engine.h"
#include "../../support/scratch_folder.h"
#include "../optimizer/optimizer_world.h"

namespace castor {
namespace {

using test::Fault;
using test::FaultyEngine;
using testing::AdamData;
using testing::OptimizerWorld;
using Script = FaultyEngine::Script;

/// One tensor larger than a chunk, small ones of two dtypes, one that is frozen.
const std::vector<TensorSpec> kTensors = {
    {5000, DType::bf16}, {300, DType::bf16}, {700, DType::f32}, {1000, DType::bf16, false}, {2000, DType::bf16}};
constexpr std::uint32_t kFrozen = 3;

/// Homes of the states of the chunks, in turn.
const std::vector<Tier> kMixed = {Tier::nvme, Tier::host, Tier::device};
const std::vector<Tier> kAllBelow = {Tier::nvme};

/// The expected state of a training, by the straight lines.
struct Reached {
  std::vector<AdamData> tensors;
  std::vector<std::uint64_t> n_updates;
};

/// A training under budgets whose tier below the host is a store in `folder`.
struct Job {
  explicit Job(const std::string& folder, std::vector<Tier> homes = kMixed, OptimizerWorld::Sizes sizes = {},
               std::shared_ptr<Script> script = std::make_shared<Script>())
      : store(open(folder, std::move(script))), spill(*store), world(kTensors, with(sizes, spill)) {
    auto made = StateCommits::make({*store, spill, world.tiers.chunks, world.optimizer->states(),
                                      world.optimizer->io(), world.optimizer->update_barrier(), world.mover});
    EXPECT_TRUE(made.ok()) << made.error().message;
    commits = std::move(*made);
    std::vector<Tier> all;
    for (std::size_t i = 0; i < world.layout.chunks.size(); ++i) all.push_back(homes[i % homes.size()]);
    world.start(std::move(all)).value();
  }

  static std::unique_ptr<TensorStore> open(const std::string& folder, std::shared_ptr<Script> script) {
    TensorStoreOptions options;
    options.folders = {folder};
    options.durability = Durability::commit;
    options.block_bytes = 4096;
    auto engine = std::make_unique<FaultyEngine>(make_io_engine(EngineChoice::threads).value(), std::move(script));
    return TensorStore::open(options, std::move(engine)).value();
  }
  static OptimizerWorld::Sizes with(OptimizerWorld::Sizes sizes, SpillStore& spill) {
    sizes.format.split_master = true;
    sizes.spill = &spill;
    return sizes;
  }

  /// Steps `first` to `last`; the gradients follow from the step's number. Every third step leaves tensor 1 without
  /// one.
  void train(int first, int last) {
    for (int step = first; step <= last; ++step) {
      std::mt19937_64 random(static_cast<std::uint64_t>(step));
      for (std::uint32_t tensor = 0; tensor < kTensors.size(); ++tensor) {
        const auto gradient = testing::random_gradient(random, kTensors[tensor].numel);
        if (tensor != kFrozen && (tensor != 1 || step % 3 != 0)) world.gradient(tensor, gradient).value();
      }
      AdamOptions adam;
      adam.lr = 0.1 / step;
      StepOptions options;
      options.update = adam;
      world.step(options).value();
    }
  }

  Reached reached() const { return {world.naive, world.n_naive_updates}; }
  void expect(const Reached& reached) {
    world.naive = reached.tensors;
    world.n_naive_updates = reached.n_updates;
    world.expect_same_bits();
  }
  std::uint64_t chunk_bytes() const {
    std::uint64_t n_bytes = 0;
    for (const ChunkId id : world.optimizer->states().map().chunks()) n_bytes += world.tiers.chunks.chunk(id).n_bytes;
    return n_bytes;
  }
  std::uint64_t n_written_bytes() const { return world.tiers.chunks.moved().nvme_write; }

  std::unique_ptr<TensorStore> store;
  TensorStoreSpill spill;
  OptimizerWorld world;
  std::unique_ptr<StateCommits> commits;
};

class StateCommitsTest : public ::testing::Test {
 protected:
  test::ScratchFolder scratch_{test::ScratchFolder::quick_parent()};
  const std::string folder_ = scratch_.path();
};

TEST_F(StateCommitsTest, ARunGoesOnFromItsLastCommitInTheSameChunksWithoutACopy) {
  Reached at_three;
  {
    Job run(folder_);
    run.train(1, 3);
    ASSERT_TRUE(run.commits->commit(3, "three").ok());
    at_three = run.reached();
    run.train(4, 5);
  }
  Job run(folder_);
  EXPECT_EQ(run.commits->step(), 3u);
  EXPECT_EQ(run.commits->note(), "three");
  const std::uint64_t before_bytes = run.n_written_bytes();
  ASSERT_TRUE(run.commits->restore().ok());
  EXPECT_EQ(run.n_written_bytes(), before_bytes);
  run.expect(at_three);
  run.train(4, 8);
  run.world.expect_same_bits();
  ASSERT_TRUE(run.commits->commit(8, "eight").ok());
  EXPECT_EQ(run.commits->note(), "eight");
}

TEST_F(StateCommitsTest, OtherChunksHomesBudgetsAndFormatsGoOnToo) {
  Reached at_three;
  {
    Job run(folder_);
    run.train(1, 3);
    ASSERT_TRUE(run.commits->commit(3, "three").ok());
    at_three = run.reached();
  }
  const OptimizerWorld::Sizes small_chunks{2048, 24 << 10, 48 << 10}, large_chunks{1 << 20};
  for (const auto& sizes : {small_chunks, large_chunks})
    for (const auto& homes : {kMixed, kAllBelow}) {
      Job run(folder_, homes, sizes);
      ASSERT_TRUE(run.commits->restore().ok());
      run.expect(at_three);
      run.train(4, 5);
      run.world.expect_same_bits();
    }
}

TEST_F(StateCommitsTest, ARunInOtherChunksLeavesTheCommitUntilItsOwn) {
  Reached at_three, at_five;
  {
    Job run(folder_);
    run.train(1, 3);
    ASSERT_TRUE(run.commits->commit(3, "three").ok());
    at_three = run.reached();
  }
  {
    Job run(folder_, kAllBelow, {2048});
    ASSERT_TRUE(run.commits->restore().ok());
    run.expect(at_three);
    run.train(4, 5);
  }  // the run ended before it committed
  {
    Job run(folder_, kAllBelow, {2048});
    ASSERT_TRUE(run.commits->restore().ok());
    run.expect(at_three);
    run.train(4, 5);
    ASSERT_TRUE(run.commits->commit(5, "five").ok());
    at_five = run.reached();
    EXPECT_EQ(run.store->keys().size(), run.world.optimizer->states().map().chunks().size() + 1)
        << "nothing else is kept";
  }
  Job run(folder_);
  EXPECT_EQ(run.commits->step(), 5u);
  ASSERT_TRUE(run.commits->restore().ok());
  run.expect(at_five);
}

TEST_F(StateCommitsTest, WhatLiesBelowIsReferencedAndTheRestWritten) {
  Job run(folder_, kAllBelow);
  run.train(1, 2);
  ASSERT_TRUE(run.world.tiers.chunks.drain().ok());
  std::uint64_t state_bytes = 0;
  for (const auto& tiles : run.world.optimizer->states().map().states)
    for (const ChunkId id : tiles) state_bytes += run.world.tiers.chunks.chunk(id).n_bytes;
  const auto first = run.commits->commit(2, "two").value();
  EXPECT_EQ(first.referenced_bytes, state_bytes);
  EXPECT_EQ(first.written_bytes, run.chunk_bytes() - state_bytes) << "the weights";
  const auto again = run.commits->commit(3, "three").value();
  EXPECT_EQ(again.written_bytes, 0u) << "nothing has changed";
  EXPECT_EQ(again.referenced_bytes, run.chunk_bytes());
}

TEST_F(StateCommitsTest, UpdatesBesideTheThreadAreWaitedFor) {
  Reached at_two;
  const auto team = make_host_team(2).value();
  {
    OptimizerWorld::Sizes sizes;
    sizes.beside = team.get();
    Job run(folder_, {Tier::host}, sizes);
    run.train(1, 2);
    ASSERT_TRUE(run.commits->commit(2, "two").ok());
    at_two = run.reached();
    run.train(3, 3);
  }
  Job run(folder_);
  ASSERT_TRUE(run.commits->restore().ok());
  run.expect(at_two);
}

// Every request of a commit fails once: the last commit stands, and the run continues to a commit of the same step.
TEST_F(StateCommitsTest, AFailingDriveLeavesTheLastCommitAndTheRun) {
  std::uint64_t n_failed = 0, n_mended = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    const test::ScratchFolder scratch{test::ScratchFolder::quick_parent()};
    const auto script = std::make_shared<Script>();
    Reached at_one, at_two;
    bool failed = false, mended = false;
    {
      Job run(scratch.path(), kMixed, {}, script);
      run.train(1, 1);
      ASSERT_TRUE(run.commits->commit(1, "one").ok());
      at_one = run.reached();
      run.train(2, 2);
      at_two = run.reached();
      ASSERT_TRUE(run.world.tiers.chunks.drain().ok());
      script->set(script->n_requests() + nth, Fault::fail(ENOSPC));
      const auto committed = run.commits->commit(2, "two");
      failed = script->reached();
      ASSERT_EQ(committed.ok(), !failed) << "request " << nth;
      if (failed) {
        EXPECT_EQ(committed.error().kind, ErrorKind::io);
        EXPECT_EQ(run.commits->step(), 1u);
        run.world.expect_same_bits();
        mended = run.commits->commit(2, "two").ok();  // impossible after a failed sync
      }
    }
    Job run(scratch.path());
    EXPECT_EQ(run.commits->step(), failed && !mended ? 1u : 2u);
    ASSERT_TRUE(run.commits->restore().ok());
    run.expect(failed && !mended ? at_one : at_two);
    if (!failed) break;
    ++n_failed, n_mended += mended;
  }
  EXPECT_GT(n_failed, 10u);
  EXPECT_EQ(n_mended, n_failed - 1) << "all but the sync";
}

TEST_F(StateCommitsTest, DamageIsFoundWhenItIsRead) {
  {
    Job run(folder_);
    run.train(1, 1);
    ASSERT_TRUE(run.commits->commit(1, "one").ok());
  }
  const auto script = std::make_shared<Script>();
  Job run(folder_, kMixed, {2048}, script);
  script->set(script->n_requests() + 1, Fault::corrupt());
  EXPECT_EQ(run.commits->restore().error().kind, ErrorKind::io);
}

TEST_F(StateCommitsTest, ARunThatWasNotGoneOnFromIsNotReplaced) {
  {
    Job run(folder_);
    run.train(1, 1);
    ASSERT_TRUE(run.commits->commit(1, "one").ok());
    EXPECT_EQ(run.commits->restore().error().kind, ErrorKind::usage) << "this run has been going on";
  }
  Job run(folder_);
  run.train(1, 2);
  EXPECT_EQ(run.commits->commit(2, "two").error().kind, ErrorKind::usage);
}

TEST_F(StateCommitsTest, TheMomentsOfAnotherOptimizerAreRefused) {
  {
    Job run(folder_);
    run.train(1, 1);
    ASSERT_TRUE(run.commits->commit(1, "one").ok());
  }
  OptimizerWorld::Sizes sizes;
  sizes.format.keeps_exp_avg_sq = false;
  Job run(folder_, kMixed, sizes);
  EXPECT_EQ(run.commits->restore().error().message,
            "the run in the folders of nvme has the moments of another optimizer; give the optimizer of that run");
}

TEST_F(StateCommitsTest, AStoreOfSomethingElseIsRefused) {
  const auto store = Job::open(folder_, std::make_shared<Script>());
  std::vector<std::byte> bytes(100);
  ASSERT_TRUE(store->put(5, {bytes.data(), bytes.size()}).wait().ok());
  ASSERT_TRUE(store->commit(9).wait().ok());
  TensorStoreSpill spill(*store);
  OptimizerWorld::Sizes sizes;
  sizes.spill = &spill;
  OptimizerWorld world(kTensors, sizes);
  const auto refused = StateCommits::make({*store, spill, world.tiers.chunks, world.optimizer->states(),
                                      world.optimizer->io(), world.optimizer->update_barrier(), world.mover});
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

TEST_F(StateCommitsTest, WhoeverReadsThemGetsEveryValueOnceWithItsCounter) {
  Job run(folder_);
  run.train(1, 3);
  ASSERT_TRUE(run.commits->commit(3, "three").ok());
  const auto states = CommittedStates::find(*run.store).value();
  ASSERT_TRUE(states);
  EXPECT_EQ(states->note(), "three");
  const Reached wanted = run.reached();
  std::vector<std::uint64_t> n_values(kTensors.size());
  const auto take = [&](RegisteredId registered, const StateValues& got) -> Result<void> {
    const std::uint32_t tensor = number(registered);
    const AdamData& data = wanted.tensors[tensor];
    EXPECT_EQ(got.n_updates, wanted.n_updates[tensor]);
    for (std::uint64_t i = 0; i < got.n; ++i) {
      EXPECT_EQ(got.master[i], data.master[got.first + i]);
      if (tensor == kFrozen) continue;
      EXPECT_EQ(got.exp_avg[i], data.exp_avg[got.first + i]);
      EXPECT_EQ(got.exp_avg_sq[i], data.exp_avg_sq[got.first + i]);
    }
    EXPECT_EQ(got.exp_avg == nullptr, tensor == kFrozen);
    n_values[tensor] += got.n;
    return {};
  };
  ASSERT_TRUE(states->read(take).ok());
  for (std::uint32_t tensor = 0; tensor < kTensors.size(); ++tensor)
    EXPECT_EQ(n_values[tensor], kTensors[tensor].numel);
}

}  // namespace
}  // namespace castor
