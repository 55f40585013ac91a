// SPDX-License-Identifier: Apache-2.0
// The contents of a store with Durability::commit when it is opened again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/tensor_store.h>

#include "files/folder_ops.h"
#include "../../support/drives/faulty_engine.h"
#include "../../support/drives/faulty_folder_ops.h"
#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

class DurableStoreTest : public ::testing::Test {
 protected:
  TensorStoreOptions options() {
    TensorStoreOptions options;
    options.folders = {folder_.path()};
    options.durability = Durability::commit;
    return options;
  }
  std::unique_ptr<TensorStore> open() { return TensorStore::open(options()).value(); }
  std::unique_ptr<TensorStore> open_faulty() {
    script_ = std::make_shared<FaultyEngine::Script>();
    auto engine = std::make_unique<FaultyEngine>(make_io_engine(EngineChoice::best).value(), script_);
    return TensorStore::open(options(), std::move(engine)).value();
  }
  static void put(TensorStore& store, std::uint64_t key, std::uint64_t n_bytes, std::uint64_t seed) {
    const TestBuffer bytes(n_bytes, seed);
    store.put(key, bytes.view()).wait().value();
  }
  static ::testing::AssertionResult holds(TensorStore& store, std::uint64_t key, std::uint64_t n_bytes,
                                          std::uint64_t seed) {
    const TestBuffer in(n_bytes);
    const auto got = store.get(key, in.view()).wait();
    if (!got.ok()) return ::testing::AssertionFailure() << got.error().message;
    return in.holds(seed) ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "other bytes";
  }

  ScratchFolder folder_;
  std::shared_ptr<FaultyEngine::Script> script_;
};

TEST_F(DurableStoreTest, WhatWasCommittedIsThereAgain) {
  {
    const auto store = open();
    EXPECT_EQ(store->committed_step(), std::nullopt);
    put(*store, 7, 3 * kMiB + 5000, 1);
    put(*store, 9, 0, 2);
    put(*store, 11, 17, 3);
    store->commit(41).wait().value();
    EXPECT_EQ(store->committed_step(), 41u);
  }
  const auto store = open();
  EXPECT_EQ(store->committed_step(), 41u);
  EXPECT_EQ(store->keys(), (std::vector<std::uint64_t>{7, 9, 11}));
  EXPECT_EQ(store->value_bytes(7).value(), 3 * kMiB + 5000);
  EXPECT_EQ(store->value_bytes(8).error().kind, ErrorKind::usage);
  EXPECT_TRUE(holds(*store, 7, 3 * kMiB + 5000, 1));
  EXPECT_TRUE(holds(*store, 9, 0, 2));
  EXPECT_TRUE(holds(*store, 11, 17, 3));
}

TEST_F(DurableStoreTest, WhatWasNotCommittedIsNot) {
  {
    const auto store = open();
    put(*store, 1, 100000, 1);
    put(*store, 2, 100000, 2);
    store->commit(1).wait().value();
    put(*store, 1, 100000, 10);  // another value, a new key and a removal, none of them committed
    put(*store, 3, 100000, 3);
    store->remove(2);
    EXPECT_TRUE(holds(*store, 1, 100000, 10));
    EXPECT_EQ(store->keys(), (std::vector<std::uint64_t>{1, 3}));
  }
  const auto store = open();
  EXPECT_EQ(store->keys(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(holds(*store, 1, 100000, 1));
  EXPECT_TRUE(holds(*store, 2, 100000, 2));
}

TEST_F(DurableStoreTest, ManyStepsTakeTwoSlotsEach) {
  const auto store = open();
  for (std::uint64_t step = 0; step < 10; ++step) {
    put(*store, 1, 100000, step);
    put(*store, 1, 100000, step + 100);
    put(*store, 2, 8192, step);
    store->commit(step).wait().value();
  }
  EXPECT_EQ(store->stats().allocated_bytes, 2u * (102400 + 8192));
  EXPECT_EQ(store->stats().peak_allocated_bytes, 2u * (102400 + 8192));
  EXPECT_TRUE(holds(*store, 1, 100000, 109));
}

TEST_F(DurableStoreTest, RemovedRoomComesBackWithTheNextCommit) {
  const auto store = open();
  put(*store, 1, 100000, 1);
  store->commit(1).wait().value();
  store->remove(1);
  EXPECT_EQ(store->stats().allocated_bytes, 102400u);
  store->commit(2).wait().value();
  EXPECT_EQ(store->stats().allocated_bytes, 0u);
}

TEST_F(DurableStoreTest, ValuesMayChangeTheirSizeBetweenCommits) {
  {
    const auto store = open();
    for (std::uint64_t step = 1; step < 6; ++step) {
      put(*store, 1, 10000 * step, step);
      store->commit(step).wait().value();
      EXPECT_TRUE(holds(*store, 1, 10000 * step, step));
    }
  }
  EXPECT_TRUE(holds(*open(), 1, 50000, 5));
}

TEST_F(DurableStoreTest, PutsAfterACommitWaitForItAndGetsDoNot) {
  const auto store = open_faulty();
  const TestBuffer first(4096, 1), second(4096, 2), other(4096, 3);
  store->put(5, first.view()).wait().value();
  script_->set(2, Fault::hold());  // the commit's sync
  const Event commit = store->commit(1);
  script_->wait_for(2);
  const Event later = store->put(5, second.view());
  const Event new_key = store->put(6, other.view());
  const TestBuffer in(4096);
  EXPECT_FALSE(later.ready() || new_key.ready() || commit.ready());
  script_->release();
  commit.wait().value();
  later.wait().value();
  new_key.wait().value();
  EXPECT_TRUE(holds(*store, 5, 4096, 2));
}

TEST_F(DurableStoreTest, GetsRunWhileACommitWaits) {
  const auto store = open_faulty();
  put(*store, 5, 4096, 1);
  script_->set(2, Fault::hold());
  const Event commit = store->commit(1);
  script_->wait_for(2);
  EXPECT_TRUE(holds(*store, 5, 4096, 1));
  EXPECT_FALSE(commit.ready());
  script_->release();
  commit.wait().value();
}

TEST_F(DurableStoreTest, AFailedPutKeepsTheNextCommitFromHappening) {
  {
    const auto store = open_faulty();
    put(*store, 5, 4096, 1);
    store->commit(1).wait().value();  // requests 2 (sync)
    script_->set(3, Fault::fail(EIO));
    const TestBuffer bytes(4096, 2);
    EXPECT_FALSE(store->put(5, bytes.view()).wait().ok());
    const auto refused = store->commit(2).wait();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message.find("step 2 is not committed: key 5: write of 4.00 KiB"), 0u)
        << refused.error().message;
    EXPECT_EQ(store->committed_step(), 1u);
    put(*store, 5, 4096, 3);
    store->commit(3).wait().value();
  }
  const auto store = open();
  EXPECT_EQ(store->committed_step(), 3u);
  EXPECT_TRUE(holds(*store, 5, 4096, 3));
}

TEST_F(DurableStoreTest, AFailedSyncEndsAllPromisesUntilTheStoreIsOpenedAgain) {
  {
    const auto store = open_faulty();
    put(*store, 5, 4096, 1);
    store->commit(1).wait().value();
    put(*store, 5, 4096, 2);
    script_->set(4, Fault::fail(EIO));
    EXPECT_FALSE(store->commit(2).wait().ok());
    const TestBuffer bytes(4096, 3);
    const auto refused = store->put(5, bytes.view()).wait();
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("open the store again to continue from its last commit"), std::string::npos)
        << refused.error().message;
    EXPECT_FALSE(store->commit(3).wait().ok());
    EXPECT_EQ(store->committed_step(), 1u);
  }
  const auto store = open();
  EXPECT_EQ(store->committed_step(), 1u);
  EXPECT_TRUE(holds(*store, 5, 4096, 1));
}

TEST_F(DurableStoreTest, OneOwnerAtATime) {
  const auto store = open();
  const auto second = TensorStore::open(options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::io);
  EXPECT_NE(second.error().message.find(folder_.path()), std::string::npos) << second.error().message;
}

TEST_F(DurableStoreTest, LeftoversOfARunThatNeverCommittedAreRemovedAndSaid) {
  { put(*open(), 1, kMiB, 1); }
  const auto store = open();
  ASSERT_EQ(store->warnings().size(), 1u);
  EXPECT_EQ(store->warnings()[0].find("removed 1 files ("), 0u) << store->warnings()[0];
  std::size_t n_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) (void)file, ++n_files;
  EXPECT_EQ(n_files, 1u);  // the new store's data
}

TEST_F(DurableStoreTest, SeveralFoldersMayComeInAnotherOrder) {
  const ScratchFolder second;
  auto both = options();
  both.folders = {folder_.path(), second.path()};
  {
    const auto store = TensorStore::open(both).value();
    put(*store, 1, 8 * kMiB + 77, 1);
    store->commit(1).wait().value();
  }
  std::swap(both.folders[0], both.folders[1]);
  {
    const auto store = TensorStore::open(both).value();
    EXPECT_TRUE(holds(*store, 1, 8 * kMiB + 77, 1));
  }
  const auto one = TensorStore::open(options());
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message.find("which none of the folders named has; name the folder it is in"),
            std::string::npos)
      << one.error().message;
}

TEST_F(DurableStoreTest, AStrangerIsRefusedInTheSecondFolderOfAStoreAtRest) {
  const ScratchFolder second;
  auto both = options();
  both.folders = {folder_.path(), second.path()};
  {
    const auto store = TensorStore::open(both).value();
    put(*store, 1, 8 * kMiB, 1);
    store->commit(1).wait().value();
  }
  auto stranger = options();
  stranger.folders = {second.path()};
  const auto refused = TensorStore::open(stranger);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_NE(refused.error().message.find("keeps a part of a store, castor-"), std::string::npos);
  EXPECT_TRUE(holds(*TensorStore::open(both).value(), 1, 8 * kMiB, 1));
}

TEST_F(DurableStoreTest, ARunOverTwoFoldersThatNeverCommittedIsRemovedFromBoth) {
  const ScratchFolder second;
  auto both = options();
  both.folders = {folder_.path(), second.path()};
  { put(*TensorStore::open(both).value(), 1, 8 * kMiB, 1); }
  const auto store = TensorStore::open(both).value();
  EXPECT_EQ(store->warnings().size(), 2u);
  for (const auto& folder : both.folders) {
    std::size_t n_files = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) (void)file, ++n_files;
    EXPECT_EQ(n_files, 1u) << folder;
  }
}

TEST_F(DurableStoreTest, ADamagedManifestIsRefused) {
  {
    const auto store = open();
    put(*store, 1, 4096, 1);
    store->commit(1).wait().value();
  }
  const auto path = folder_.path() + "/castor.manifest";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(20);
  file.put('x');
  file.close();
  const auto refused = TensorStore::open(options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_NE(refused.error().message.find(path), std::string::npos) << refused.error().message;
}

TEST_F(DurableStoreTest, DataThatWasCutShortIsRefused) {
  {
    const auto store = open();
    put(*store, 1, kMiB, 1);
    store->commit(1).wait().value();
  }
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    if (file.path().extension() == ".data") std::filesystem::resize_file(file.path(), 4096);
  EXPECT_FALSE(TensorStore::open(options()).ok());
}

TEST_F(DurableStoreTest, ACommitOfAScratchStoreIsACallersMistake) {
  TensorStoreOptions scratch;
  scratch.folders = {folder_.path()};
  const auto store = TensorStore::open(scratch).value();
  EXPECT_THROW(store->commit(1), ContractViolation);
}

}  // namespace
}  // namespace castor::test
