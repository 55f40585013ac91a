// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_manager.h>

#include <gtest/gtest.h>

#include <cstring>

#include "../support/deferred_device.h"
#include "filled_chunks.h"

namespace castor {
namespace {

using ChunkManagerTest = FilledChunks;

TEST_F(ChunkManagerTest, FetchBringsTheContentsUpAndCountsTheBytes) {
  const ChunkId id = add(7);
  EXPECT_TRUE(holds(id, Tier::device, 7));
  EXPECT_EQ(tiers_.chunks.moved().h2d, kBytes);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host)) << "the copy below stays until it is released";
}

TEST_F(ChunkManagerTest, FetchToWhereItIsCostsNothing) {
  const ChunkId id = add(7);
  EXPECT_TRUE(holds(id, Tier::device, 7));
  EXPECT_TRUE(holds(id, Tier::device, 7));
  EXPECT_EQ(tiers_.chunks.moved().h2d, kBytes);
}

TEST_F(ChunkManagerTest, WhatWasWrittenOnTheDeviceIsWhatComesBack) {
  const ChunkId id = add(7);
  EXPECT_TRUE(holds(id, Tier::device, 7));
  std::memset(tiers_.chunks.chunk(id).at(Tier::device).buffer.data(), 9, kBytes);
  tiers_.chunks.written(id, Tier::device);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(holds(id, Tier::host, 9));
  EXPECT_EQ(tiers_.chunks.moved().d2h, kBytes);
}

TEST_F(ChunkManagerTest, ReleasingACleanCopyMovesNothing) {
  const ChunkId id = add(7);
  EXPECT_TRUE(holds(id, Tier::device, 7));
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::device).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::device).value(), kBytes);
  EXPECT_EQ(tiers_.chunks.moved().d2h, 0u);
  EXPECT_FALSE(tiers_.chunks.chunk(id).at(Tier::device).buffer);
}

TEST_F(ChunkManagerTest, ReleasingTheLastCopyWritesItBelowAndReadsItBack) {
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes);
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, kBytes);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(holds(id, Tier::host, 5));
  EXPECT_EQ(tiers_.chunks.moved().nvme_read, kBytes);
}

TEST_F(ChunkManagerTest, AWriteBackThatFailedLeavesTheCopyAsTheOnlyOne) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.below().write_back(id).ok());
  EXPECT_EQ(tiers_.chunks.settle(id, Tier::host).error().kind, ErrorKind::io);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::nvme));
  EXPECT_TRUE(holds(id, Tier::host, 5));
  ASSERT_TRUE(tiers_.chunks.edit(id, Tier::host).ok()) << "it was told once";
  ASSERT_TRUE(tiers_.chunks.below().write_back(id).ok());
  EXPECT_TRUE(tiers_.chunks.settle(id, Tier::host).ok());
}

TEST_F(ChunkManagerTest, AWriteBackWhoseFailureAnEditReportsLeavesTheCopyAsTheOnlyOne) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.edit(id, Tier::host).error().kind, ErrorKind::io);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::nvme));
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok()) << "nothing was edited after all";
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes);
  EXPECT_TRUE(holds(id, Tier::host, 5));
}

TEST_F(ChunkManagerTest, ACopyBeingWrittenBelowKeepsItsMemoryUntilTheWriteIsDone) {
  tiers_.spill.hold_writes = true;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), 0u);
  EXPECT_TRUE(tiers_.chunks.chunk(id).at(Tier::host).buffer);
  tiers_.spill.finish_writes();
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), kBytes);
}

TEST_F(ChunkManagerTest, FetchKeepsACopyThatWasAboutToLeave) {
  tiers_.spill.hold_writes = true;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_TRUE(holds(id, Tier::host, 5));
  tiers_.spill.finish_writes();
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), 0u);
  EXPECT_EQ(tiers_.spill.n_reads, 0);
  EXPECT_TRUE(tiers_.chunks.chunk(id).clean(Tier::host)) << "the write went through, so leaving again is free";
}

TEST_F(ChunkManagerTest, AFailedWriteBelowIsReportedWhenTheMemoryIsReaped) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  const auto reaped = reap_one(tiers_.chunks, Tier::host);
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.error().kind, ErrorKind::io);
}

TEST_F(ChunkManagerTest, BytesThatFailedToComeFromBelowDoNotGoUp) {
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_TRUE(reap_one(tiers_.chunks, Tier::host).ok());
  tiers_.spill.fail_read = 1;
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  const auto fetched = tiers_.chunks.fetch(id, Tier::device);
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().kind, ErrorKind::io);
  EXPECT_EQ(tiers_.chunks.moved().h2d, 0u);
}

/// A manager over the tiers that counts the chunks whose copy on the device starts to leave; its only chunk is on both.
class DeviceReleases : public ::testing::Test {
 protected:
  DeviceReleases() {
    (void)chunks_.open(id_, Tier::host).value();
    chunks_.written(id_, Tier::host);
    (void)chunks_.fetch(id_, Tier::device).value();
  }

  Tiers tiers_;
  std::vector<ChunkId> released_;
  ChunkManager chunks_{{tiers_.pooled_device, tiers_.pooled_host, nullptr, *tiers_.compute, *tiers_.up, *tiers_.down,
                        tiers_.timeline, [this](ChunkId id) { released_.push_back(id); }}};
  const ChunkId id_ = chunks_.add(ChunkKind::payload, kBytes, "chunk");
};

TEST_F(DeviceReleases, AreAnnouncedOnce) {
  ASSERT_TRUE(chunks_.release(id_, Tier::device).ok());
  ASSERT_TRUE(chunks_.release(id_, Tier::device).ok());
  EXPECT_EQ(released_, std::vector<ChunkId>{id_});
}

TEST_F(DeviceReleases, AreAnnouncedWhereTheHostCopyIsWritten) {
  ASSERT_TRUE(chunks_.edit(id_, Tier::host).ok());
  chunks_.written(id_, Tier::host);
  EXPECT_EQ(released_, std::vector<ChunkId>{id_});
}

TEST_F(ChunkManagerTest, AWriteBelowThatFailedLosesNothing) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_FALSE(reap_one(tiers_.chunks, Tier::host).ok());
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_FALSE(tiers_.chunks.chunk(id).clean(Tier::host)) << "the copy below never came to be";
  EXPECT_TRUE(holds(id, Tier::device, 5));
}

TEST_F(ChunkManagerTest, AFetchThatFailedGivesItsMemoryBack) {
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_TRUE(reap_one(tiers_.chunks, Tier::host).ok());
  tiers_.spill.fail_read = 1;
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  ASSERT_FALSE(tiers_.chunks.fetch(id, Tier::device).ok());
  EXPECT_EQ(tiers_.chunks.reap(Tier::device).value(), kBytes);
}

TEST_F(ChunkManagerTest, ExchangedMemoryTakesItsContentsAndReadersAlong) {
  const ChunkId a = add(3), b = tiers_.chunks.add(ChunkKind::undo, kBytes, "room beside it");
  ASSERT_TRUE(tiers_.chunks.open(b, Tier::host).ok());
  tiers_.chunks.pin(b, Tier::host);
  const auto reading = std::make_shared<HostEventState>();  // owners: this, and the event
  tiers_.chunks.read_until(a, Tier::host, Event(reading));
  tiers_.chunks.exchange(a, b, Tier::host);
  EXPECT_FALSE(tiers_.chunks.chunk(a).has_contents());
  EXPECT_TRUE(tiers_.chunks.chunk(a).at(Tier::host).quiet());
  EXPECT_TRUE(holds(b, Tier::host, 3));
  EXPECT_FALSE(tiers_.chunks.chunk(b).at(Tier::host).quiet()) << "read until then";
  EXPECT_TRUE(tiers_.chunks.chunk(b).pinned());
  std::memset(tiers_.chunks.chunk(a).at(Tier::host).buffer.data(), 4, kBytes);
  tiers_.chunks.written(a, Tier::host);
  EXPECT_TRUE(holds(a, Tier::device, 4));
  tiers_.chunks.exchange(a, b, Tier::host);
  tiers_.chunks.written(a, Tier::host);
  EXPECT_FALSE(tiers_.chunks.chunk(a).at(Tier::device).current) << "that has the contents in between";
  EXPECT_TRUE(holds(a, Tier::host, 3));
  reading->complete({});
}

/// The checksums of the host's bytes, which a writer of the bytes would make.
Checksums checksums_of(const Tiers& tiers, ChunkId id) {
  const BufferView bytes = tiers.chunks.chunk(id).at(Tier::host).buffer.view();
  return std::make_shared<std::vector<std::uint64_t>>(tiers.spill.checksums_of(bytes));  // owners: as Checksums
}

TEST_F(ChunkManagerTest, ChecksumsGoBelowWithTheBytesTheyAreOf) {
  tiers_.spill.block_bytes = 3000;
  const ChunkId a = add(3), b = add(4);
  tiers_.chunks.checked(a, checksums_of(tiers_, a));
  tiers_.chunks.exchange(a, b, Tier::host);
  ASSERT_TRUE(tiers_.chunks.below().write_back(a).ok());
  EXPECT_EQ(tiers_.spill.n_checked, 0);
  ASSERT_TRUE(tiers_.chunks.below().write_back(b).ok());
  EXPECT_EQ(tiers_.spill.n_checked, 1);
  EXPECT_EQ(tiers_.spill.n_wrong, 0);
}

TEST_F(ChunkManagerTest, ChecksumsAreForgottenWhereBytesMayChange) {
  tiers_.spill.block_bytes = 3000;
  const ChunkId id = add(3);
  const auto change = [&](int fill) {
    return std::memset(tiers_.chunks.chunk(id).at(Tier::host).buffer.data(), fill, kBytes);
  };
  const auto comes_unchecked = [&] { return tiers_.chunks.below().write_back(id).ok() && tiers_.spill.n_checked == 0; };
  tiers_.chunks.checked(id, checksums_of(tiers_, id));
  change(5), tiers_.chunks.written(id, Tier::host);
  EXPECT_TRUE(comes_unchecked()) << "written";
  tiers_.chunks.checked(id, checksums_of(tiers_, id));
  ASSERT_TRUE(tiers_.chunks.edit(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.chunk(id).at(Tier::host).checksums, nullptr) << "edited";
  tiers_.chunks.checked(id, checksums_of(tiers_, id));
  ASSERT_TRUE(tiers_.chunks.open(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.chunk(id).at(Tier::host).checksums, nullptr) << "opened";
  tiers_.chunks.checked(id, checksums_of(tiers_, id));
  ASSERT_TRUE(holds(id, Tier::device, 5));
  tiers_.chunks.written(id, Tier::device);
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  EXPECT_TRUE(comes_unchecked()) << "written elsewhere, and fetched";
}

TEST_F(ChunkManagerTest, ReadersThatAreDoneAreForgotten) {
  const ChunkId id = add(5);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(holds(id, Tier::device, 5));
    ASSERT_TRUE(tiers_.chunks.release(id, Tier::device).ok());
    ASSERT_EQ(reap_one(tiers_.chunks, Tier::device).value(), kBytes);
  }
  EXPECT_LE(tiers_.chunks.chunk(id).at(Tier::host).readers.size(), 1u);
}

TEST_F(ChunkManagerTest, BrokenContractsAreNamed) {
  const ChunkId empty = tiers_.chunks.add(ChunkKind::payload, kBytes, "the empty one");
  EXPECT_THROW((void)tiers_.chunks.fetch(empty, Tier::device), ContractViolation);
  EXPECT_THROW((void)tiers_.chunks.edit(empty, Tier::host), ContractViolation);
  EXPECT_THROW((void)tiers_.chunks.join(empty), ContractViolation);
  const ChunkId id = add(1);
  tiers_.chunks.pin(id, Tier::host);
  EXPECT_THROW((void)tiers_.chunks.release(id, Tier::host), ContractViolation);
  tiers_.chunks.unpin(id, Tier::host);
  EXPECT_THROW(tiers_.chunks.exchange(id, empty, Tier::host), ContractViolation) << "that has no memory there";
}

TEST_F(ChunkManagerTest, ACopyThatCouldNotBeWrittenStaysAndIsWrittenNextTime) {
  const ChunkId id = add(7);
  tiers_.spill.fail_write = 1;
  (void)tiers_.chunks.release(id, Tier::host);
  const auto reaped = reap_one(tiers_.chunks, Tier::host);
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.error().kind, ErrorKind::io);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::nvme)) << "the write failed";
  tiers_.chunks.release(id, Tier::host).value();
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes);
  EXPECT_TRUE(holds(id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, OpeningACopyThatCouldNotBeWrittenKeepsIt) {
  const ChunkId id = add(7);
  tiers_.spill.fail_write = 1;
  (void)tiers_.chunks.release(id, Tier::host);
  EXPECT_FALSE(tiers_.chunks.open(id, Tier::host).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), 0u);
  EXPECT_TRUE(holds(id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, ChunksWhoseReadFailedAreReadAgain) {
  const ChunkId id = add(7);
  tiers_.chunks.release(id, Tier::host).value();
  reap_one(tiers_.chunks, Tier::host).value();
  tiers_.spill.fail_read = 1;
  EXPECT_FALSE(tiers_.chunks.fetch(id, Tier::host).value().wait().ok());
  EXPECT_TRUE(holds(id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, ACopyWhoseReadFailedIsNotTakenForGoodAfterItsRelease) {
  const ChunkId id = add(7);
  tiers_.chunks.release(id, Tier::host).value();
  reap_one(tiers_.chunks, Tier::host).value();
  tiers_.spill.fail_read = 1;
  EXPECT_FALSE(tiers_.chunks.fetch(id, Tier::host).value().wait().ok());
  tiers_.chunks.release(id, Tier::host).value();
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes) << "nobody misses what never came";
  EXPECT_TRUE(holds(id, Tier::host, 7));
}

TEST(ChunkManager, AFullTierRefusesWithItsFiguresAndChangesNothing) {
  Tiers tiers(kBytes, Budget::kUnlimited);
  for (int fill : {1, 2}) {
    const ChunkId id = tiers.chunks.add(ChunkKind::payload, kBytes, "chunk");
    std::memset(tiers.chunks.open(id, Tier::host).value().data, fill, kBytes);
    tiers.chunks.written(id, Tier::host);
  }
  ASSERT_TRUE(tiers.chunks.fetch(ChunkId{0}, Tier::device).ok());
  const auto refused = tiers.chunks.fetch(ChunkId{1}, Tier::device);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_FALSE(tiers.chunks.chunk(ChunkId{1}).resident(Tier::device));
}

// The device has room for one chunk. No queued work runs until the end: the read of the first chunk is queued before
// the second is fetched.
TEST(ChunkManager, TheMemoryOfAJoinedCopyIsHandedOnBeforeItsBytesHaveCome) {
  Tiers tiers(kBytes, Budget::kUnlimited);
  test::DeferredStream compute, up, down;
  ChunkManager chunks({tiers.pooled_device, tiers.pooled_host, nullptr, compute, up, down, tiers.timeline});
  for (const int fill : {1, 2}) {
    const ChunkId id = chunks.add(ChunkKind::payload, kBytes, "chunk");
    std::memset(chunks.open(id, Tier::host).value().data, fill, kBytes);
    chunks.written(id, Tier::host);
  }
  std::array<std::array<std::byte, kBytes>, 2> seen;
  for (const ChunkId id : chunks.ids()) {
    ASSERT_TRUE(chunks.fetch(id, Tier::device).ok());
    EXPECT_FALSE(chunks.chunk(id).at(Tier::device).arrived.ready());
    ASSERT_TRUE(chunks.join(id).ok());
    (void)compute.copy(seen[index(id)].data(), chunks.chunk(id).at(Tier::device).buffer.data(), kBytes);
    ASSERT_TRUE(chunks.release(id, Tier::device).ok());
    EXPECT_EQ(chunks.reap(Tier::device).value(), kBytes);
  }
  ASSERT_TRUE(compute.synchronize().ok());
  for (const ChunkId id : chunks.ids()) {
    const auto& bytes = seen[index(id)];
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [id](std::byte b) { return b == std::byte(number(id) + 1); }));
  }
}

TEST(ChunkManager, WithoutATierBelowTheLastCopyIsNotLetGo) {
  Tiers tiers(Budget::kUnlimited, Budget::kUnlimited, false);
  const ChunkId id = tiers.chunks.add(ChunkKind::payload, kBytes, "chunk");
  ASSERT_TRUE(tiers.chunks.open(id, Tier::host).ok());
  tiers.chunks.written(id, Tier::host);
  const auto refused = tiers.chunks.release(id, Tier::host);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_TRUE(tiers.chunks.chunk(id).resident(Tier::host));
}

}  // namespace
}  // namespace castor
