// SPDX-License-Identifier: Apache-2.0
#include <castor/training/checkpoint.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <nlohmann/json.hpp>

#include <castor/io/tensor_store.h>
#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>
#include <castor/states/committed_states.h>

#include "run_header.h"

#include "../support/drives/faulty_engine.h"
#include "../support/scratch_folder.h"
#include "plain_strategy.h"

namespace castor {
namespace {

using test::Fault;
using test::kFrozen;
using test::params;
using test::PlainStrategy;
using Script = test::FaultyEngine::Script;

/// A model whose first parameter has no values, and the rest of which is laid out in another order than registered.
const std::vector<std::uint64_t> kWithEmpty = {0, 700, 5, 300};
const std::vector<std::uint32_t> kFirstUses = {3, 1, 2};  ///< parameters by their first use

/// Puts the fp32 states of a parameter into a store as a strategy with one chunk for each tensor does.
void put_states(TensorStore& store, const PlainStrategy& trained, std::uint32_t param, const StateMap& map,
                PayloadId chunk) {
  HostResource pages;
  const auto bytes_of = [&pages](std::uint64_t n_bytes) { return Buffer::allocate(pages, n_bytes).value(); };
  const ChunkShape& shape = map.layout.chunks[chunk];
  const Buffer weights = bytes_of(map.payload_bytes(chunk));
  std::copy_n(trained.array(param, 0).data(), shape.numel, reinterpret_cast<float*>(weights.data()));
  ASSERT_TRUE(store.put(map.key(map.payload[chunk]), weights.view()).wait().ok());
  if (!shape.trainable) return;
  const Buffer states = bytes_of(map.state_bytes(chunk, TileId{}));
  for (std::uint32_t array = 0; array < 3; ++array)
    std::copy_n(trained.array(param, array).data(), shape.numel,
                reinterpret_cast<float*>(states.data()) + array * shape.numel);
  ASSERT_TRUE(store.put(map.key(map.states[chunk][TileId{}]), states.view()).wait().ok());
}

/// Each tensor of kWithEmpty that has values, in a chunk of its own.
StateMap map_of(const PlainStrategy& trained) {
  StateMap map;
  std::uint32_t n_chunks = 0;
  for (const std::uint32_t param : kFirstUses) {
    const std::uint64_t numel = kWithEmpty[param];
    const bool trainable = param != kFrozen;
    const TensorId tensor = map.layout.tensors.push_back({id_at<PayloadId>(map.layout.chunks.size()), 0, numel});
    map.layout.chunks.push_back({DType::f32, trainable, numel, {tensor}, numel});
    map.registered.push_back(RegisteredId{param - 1});  // the one without values is not counted
    map.n_updates.push_back(trained.n_updates(param));
    map.payload.push_back(ChunkId{n_chunks++});
    map.states.push_back({});
    if (trainable) map.states.back().push_back(ChunkId{n_chunks++});
  }
  return map;
}

class CheckpointTest : public ::testing::Test {
 protected:
  /// A store on a drive with the faults of the script.
  std::unique_ptr<TensorStore> open_store(std::shared_ptr<Script> script = std::make_shared<Script>()) {
    TensorStoreOptions options;
    options.folders = {folder_.path()};
    options.durability = Durability::commit;
    auto engine =
        std::make_unique<test::FaultyEngine>(make_io_engine(EngineChoice::threads).value(), std::move(script));
    return TensorStore::open(options, std::move(engine)).value();
  }
  /// A checkpoint on such a drive.
  Checkpoint open(std::shared_ptr<Script> script = std::make_shared<Script>()) {
    return Checkpoint(folder_.path(), open_store(std::move(script)));
  }
  /// Commits the states of `trained`, whose parameters are those of kWithEmpty, as a strategy does that keeps them in
  /// chunks.
  void commit_chunks(const PlainStrategy& trained, ModelHost& model) {
    const auto store = open_store();
    const StateMap map = map_of(trained);
    for (std::size_t tensor = 0; tensor < kFirstUses.size(); ++tensor)
      put_states(*store, trained, kFirstUses[tensor], map, id_at<PayloadId>(tensor));
    const std::string note = run_header({"m"}, params_of(model).value(), {.n_steps = 7}).dump();
    auto description = CommittedStates::description(map, note);
    ASSERT_TRUE(store->put(CommittedStates::kKey, {description.data(), description.size()}).wait().ok());
    ASSERT_TRUE(store->commit(7).wait().ok());
  }
  /// The states in the folder, read from a drive without faults.
  PlainStrategy load() {
    PlainStrategy loaded(99);
    Checkpoint checkpoint = open();
    const auto run = checkpoint.load({"m"}, model_, loaded);
    EXPECT_TRUE(run.ok()) << run.error().message;
    return loaded;
  }

  test::ScratchFolder folder_{test::ScratchFolder::quick_parent()};
  test::FakeModelHost model_{params(), {{"u", {0, 1, 2}}}};
};

TEST_F(CheckpointTest, WhatIsSavedIsWhatIsLoaded) {
  PlainStrategy trained(5);
  EXPECT_TRUE(open().save({"m"}, model_, trained, {.n_steps = 7}).ok());
  EXPECT_EQ(open().step(), 7u);
  EXPECT_TRUE(load() == trained);
}

TEST_F(CheckpointTest, TheStateOfTheRunGoesOn) {
  PlainStrategy trained(5), loaded(99);
  const RunState run{7, DynamicGradScaler::State{1024, 3, 1}, std::string("epoch 2\0\xff", 9)};
  ASSERT_TRUE(open().save({"m"}, model_, trained, run).ok());
  const auto found = open().load({"m"}, model_, loaded);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->n_steps, 7);
  EXPECT_EQ(found->scaler, run.scaler);
  EXPECT_EQ(found->data_position, run.data_position);
}

TEST_F(CheckpointTest, OfOneMomentNoMoreIsSavedAndNoOtherOptimizerGoesOn) {
  PlainStrategy trained(5), loaded(99);
  ASSERT_TRUE(open().save({"m", CASTOR_SGD}, model_, trained, {.n_steps = 7}).ok());
  ASSERT_TRUE(open().load({"m", CASTOR_SGD}, model_, loaded).ok());
  EXPECT_TRUE(loaded.has_of(trained, {0, 1}));
  EXPECT_TRUE(loaded.has_of(PlainStrategy(99), {2}));
  const auto refused = open().load({"m", CASTOR_ADAMW}, model_, loaded);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message, "`resume_from` " + folder_.path() +
                                         ": it holds the moments of sgd, `optimizer` adamw continues from those of "
                                         "adam; give the optimizer of that run");
}

TEST_F(CheckpointTest, AdamAndAdamwGoOnFromEachOther) {
  PlainStrategy trained(5), loaded(99);
  ASSERT_TRUE(open().save({"m", CASTOR_ADAM}, model_, trained, {.n_steps = 7}).ok());
  EXPECT_TRUE(open().load({"m", CASTOR_ADAMW}, model_, loaded).ok());
  EXPECT_TRUE(loaded == trained);
}

// Each request of a save fails once while others are in flight; their memory outlives the error (sanitizers check
// that).
TEST_F(CheckpointTest, AFailingDriveLeavesTheLastOne) {
  PlainStrategy first(5), second(6);
  ASSERT_TRUE(open().save({"m"}, model_, first, {.n_steps = 1}).ok());
  std::uint64_t n_failed = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    const auto script = std::make_shared<Script>();
    Result<void> saved;
    {
      Checkpoint checkpoint = open(script);
      script->set(script->n_requests() + nth, Fault::fail(ENOSPC));
      if (const auto outcome = checkpoint.save({"m"}, model_, second, {.n_steps = 2}); !outcome.ok())
        saved = outcome.error();
    }
    if (!script->reached()) break;
    ASSERT_FALSE(saved.ok()) << "request " << nth;
    EXPECT_EQ(saved.error().kind, ErrorKind::io);
    EXPECT_TRUE(load() == first);
    ++n_failed;
  }
  EXPECT_GT(n_failed, 10u);
  EXPECT_TRUE(load() == second);
}

TEST_F(CheckpointTest, StatesThatCannotBeReadLeaveTheLastOne) {
  PlainStrategy first(5), second(6);
  ASSERT_TRUE(open().save({"m"}, model_, first, {.n_steps = 1}).ok());
  for (int nth = 1; nth <= 4; ++nth) {
    second.fail_reads_from(nth);
    EXPECT_EQ(open().save({"m"}, model_, second, {.n_steps = 2}).error().message, "the states are gone");
    EXPECT_TRUE(load() == first);
  }
}

// A commit counts only the parameters that have values.
TEST_F(CheckpointTest, AParameterWithoutValuesMovesNoOthersInACommitOfChunks) {
  test::FakeModelHost model(params(kWithEmpty), {{"u", {3, 1, 2, 0}}});
  const PlainStrategy trained(5, kWithEmpty);
  PlainStrategy loaded(99, kWithEmpty);
  commit_chunks(trained, model);
  const auto run = open().load({"m"}, model, loaded);
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->n_steps, 7);
  for (const std::uint32_t param : kFirstUses) {
    EXPECT_EQ(loaded.n_updates(param), trained.n_updates(param)) << param;
    for (std::uint32_t array = 0; array < 3; ++array)
      EXPECT_EQ(loaded.array(param, array), trained.array(param, array)) << param << ", array " << array;
  }
}

}  // namespace
}  // namespace castor
