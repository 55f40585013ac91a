// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/chunk_manager.h>

#include <gtest/gtest.h>

#include <cstring>

#include "../support/deferred_device.h"
#include "../support/tiers.h"

namespace castor {
namespace {

constexpr std::uint64_t kBytes = 8192;

class ChunkManagerTest : public ::testing::Test {
 protected:
  ChunkId add(Tiers& tiers, int fill) {
    const ChunkId id = tiers.chunks.add(ChunkKind::payload, kBytes, "chunk " + std::to_string(fill));
    std::memset(tiers.chunks.open(id, Tier::host).value().data, fill, kBytes);
    tiers.chunks.written(id, Tier::host);
    return id;
  }

  static bool holds(Tiers& tiers, ChunkId id, Tier tier, int fill) {
    tiers.chunks.fetch(id, tier).value().wait().value();
    const std::byte* data = tiers.chunks.chunk(id).at(tier).buffer.data();
    return std::all_of(data, data + kBytes, [fill](std::byte b) { return b == static_cast<std::byte>(fill); });
  }

  Tiers tiers_;
};

TEST_F(ChunkManagerTest, FetchBringsTheContentsUpAndCountsTheBytes) {
  const ChunkId id = add(tiers_, 7);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 7));
  EXPECT_EQ(tiers_.chunks.moved().h2d, kBytes);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host)) << "the copy below stays until it is released";
}

TEST_F(ChunkManagerTest, FetchToWhereItIsCostsNothing) {
  const ChunkId id = add(tiers_, 7);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 7));
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 7));
  EXPECT_EQ(tiers_.chunks.moved().h2d, kBytes);
}

TEST_F(ChunkManagerTest, WhatWasWrittenOnTheDeviceIsWhatComesBack) {
  const ChunkId id = add(tiers_, 7);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 7));
  std::memset(tiers_.chunks.chunk(id).at(Tier::device).buffer.data(), 9, kBytes);
  tiers_.chunks.written(id, Tier::device);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 9));
  EXPECT_EQ(tiers_.chunks.moved().d2h, kBytes);
}

TEST_F(ChunkManagerTest, ReleasingACleanCopyMovesNothing) {
  const ChunkId id = add(tiers_, 7);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 7));
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::device).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::device).value(), kBytes);
  EXPECT_EQ(tiers_.chunks.moved().d2h, 0u);
  EXPECT_FALSE(tiers_.chunks.chunk(id).at(Tier::device).buffer);
}

TEST_F(ChunkManagerTest, ReleasingTheLastCopyWritesItBelowAndReadsItBack) {
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes);
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, kBytes);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 5));
  EXPECT_EQ(tiers_.chunks.moved().nvme_read, kBytes);
}

TEST_F(ChunkManagerTest, WritingBackKeepsTheCopyAndIsDoneOnce) {
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.write_back(id).ok());
  ASSERT_TRUE(tiers_.chunks.write_back(id).ok());
  ASSERT_TRUE(tiers_.chunks.settle(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, kBytes);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(tiers_.chunks.chunk(id).clean(Tier::host)) << "leaving costs nothing now";
  tiers_.chunks.written(id, Tier::host);
  ASSERT_TRUE(tiers_.chunks.write_back(id).ok());
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, 2 * kBytes) << "what was changed since is written again";
}

TEST_F(ChunkManagerTest, AWriteBackThatFailedLeavesTheCopyAsTheOnlyOne) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.write_back(id).ok());
  EXPECT_EQ(tiers_.chunks.settle(id, Tier::host).error().kind, ErrorKind::io);
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::nvme));
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 5));
  ASSERT_TRUE(tiers_.chunks.edit(id, Tier::host).ok()) << "it was told once";
  ASSERT_TRUE(tiers_.chunks.write_back(id).ok());
  EXPECT_TRUE(tiers_.chunks.settle(id, Tier::host).ok());
}

TEST_F(ChunkManagerTest, WhatGoesBelowTakesTheRoomOfWhatIsOutOfDateThere) {
  const ChunkId a = add(tiers_, 1), b = add(tiers_, 2), c = add(tiers_, 3);
  const auto below = [this] {
    std::vector<ChunkId> found;
    for (const auto& [id, bytes] : tiers_.spill.contents) found.push_back(id);
    return found;
  };
  tiers_.chunks.write_back(a).value();
  tiers_.chunks.written(a, Tier::host);
  EXPECT_EQ(below(), std::vector{a}) << "its room is its own until somebody wants it";
  tiers_.chunks.write_back(b).value();
  EXPECT_EQ(below(), std::vector{b});
  tiers_.chunks.write_back(a).value();
  EXPECT_EQ(below(), (std::vector{a, b})) << "that of b is needed";
  tiers_.chunks.written(b, Tier::host);
  tiers_.chunks.write_back(b).value();
  tiers_.chunks.write_back(c).value();
  EXPECT_EQ(below(), (std::vector{a, b, c})) << "b is up to date again";
  for (const auto& [id, fill] : {std::pair{a, 1}, {b, 2}, {c, 3}}) {
    tiers_.chunks.release(id, Tier::host).value();
    tiers_.chunks.reap(Tier::host).value();
    EXPECT_TRUE(holds(tiers_, id, Tier::host, fill));
  }
}

TEST_F(ChunkManagerTest, RoomBelowThatIsTooSmallIsLeftAlone) {
  const ChunkId small = add(tiers_, 1), large = tiers_.chunks.add(ChunkKind::state, 2 * kBytes, "large");
  std::memset(tiers_.chunks.open(large, Tier::host).value().data, 2, 2 * kBytes);
  tiers_.chunks.written(large, Tier::host);
  tiers_.chunks.write_back(small).value();
  tiers_.chunks.written(small, Tier::host);
  tiers_.chunks.write_back(large).value();
  EXPECT_EQ(tiers_.spill.contents.size(), 2u);
  tiers_.chunks.discard(small);
  EXPECT_EQ(tiers_.spill.contents.count(small), 0u) << "forgotten, though out of date";
}

TEST_F(ChunkManagerTest, WhatIsSpilledAlreadyTakesThePlaceOfAllCopies) {
  const ChunkId id = add(tiers_, 5);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 5));
  tiers_.spill.contents[id].assign(kBytes, std::byte{8});
  tiers_.chunks.spilled(id);
  EXPECT_TRUE(tiers_.chunks.drain().ok());
  for (const Tier tier : {Tier::device, Tier::host}) EXPECT_EQ(reap_one(tiers_.chunks, tier).value(), kBytes);
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 8));
}

TEST_F(ChunkManagerTest, ACopyBeingWrittenBelowKeepsItsMemoryUntilTheWriteIsDone) {
  tiers_.spill.hold_writes = true;
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), 0u);
  EXPECT_TRUE(tiers_.chunks.chunk(id).at(Tier::host).buffer);
  tiers_.spill.finish_writes();
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), kBytes);
}

TEST_F(ChunkManagerTest, FetchKeepsACopyThatWasAboutToLeave) {
  tiers_.spill.hold_writes = true;
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 5));
  tiers_.spill.finish_writes();
  EXPECT_EQ(tiers_.chunks.reap(Tier::host).value(), 0u);
  EXPECT_EQ(tiers_.spill.n_reads, 0);
  EXPECT_TRUE(tiers_.chunks.chunk(id).clean(Tier::host)) << "the write went through, so leaving again is free";
}

TEST_F(ChunkManagerTest, AFailedWriteBelowIsReportedWhenTheMemoryIsReaped) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  const auto reaped = reap_one(tiers_.chunks, Tier::host);
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.error().kind, ErrorKind::io);
}

TEST_F(ChunkManagerTest, BytesThatFailedToComeFromBelowDoNotGoUp) {
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_TRUE(reap_one(tiers_.chunks, Tier::host).ok());
  tiers_.spill.fail_read = 1;
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  const auto fetched = tiers_.chunks.fetch(id, Tier::device);
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().kind, ErrorKind::io);
  EXPECT_EQ(tiers_.chunks.moved().h2d, 0u);
}

TEST_F(ChunkManagerTest, TheReleaseOfADevicePayloadIsAnnouncedOnce) {
  std::vector<ChunkId> released;
  tiers_.chunks.on_device_release([&](ChunkId id) { released.push_back(id); });
  const ChunkId id = add(tiers_, 5);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 5));
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::device).ok());
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::device).ok());
  EXPECT_EQ(released, std::vector<ChunkId>{id});
}

TEST_F(ChunkManagerTest, WritingTheHostCopyAnnouncesThatTheDeviceCopyIsGone) {
  int n_released = 0;
  tiers_.chunks.on_device_release([&](ChunkId) { ++n_released; });
  const ChunkId id = add(tiers_, 5);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 5));
  std::memset(tiers_.chunks.edit(id, Tier::host).value().data, 6, kBytes);
  tiers_.chunks.written(id, Tier::host);
  EXPECT_EQ(n_released, 1);
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 6));
}

TEST_F(ChunkManagerTest, AWriteBelowThatFailedLosesNothing) {
  tiers_.spill.fail_write = 1;
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_FALSE(reap_one(tiers_.chunks, Tier::host).ok());
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_FALSE(tiers_.chunks.chunk(id).clean(Tier::host)) << "the copy below never came to be";
  EXPECT_TRUE(holds(tiers_, id, Tier::device, 5));
}

TEST_F(ChunkManagerTest, AFetchThatFailedGivesItsMemoryBack) {
  const ChunkId id = add(tiers_, 5);
  ASSERT_TRUE(tiers_.chunks.release(id, Tier::host).ok());
  ASSERT_TRUE(reap_one(tiers_.chunks, Tier::host).ok());
  tiers_.spill.fail_read = 1;
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  ASSERT_FALSE(tiers_.chunks.fetch(id, Tier::device).ok());
  EXPECT_EQ(tiers_.chunks.reap(Tier::device).value(), kBytes);
}

TEST_F(ChunkManagerTest, ExchangedMemoryTakesItsContentsAndReadersAlong) {
  const ChunkId a = add(tiers_, 3), b = tiers_.chunks.add(ChunkKind::undo, kBytes, "room beside it");
  ASSERT_TRUE(tiers_.chunks.open(b, Tier::host).ok());
  tiers_.chunks.pin(b, Tier::host);
  const auto reading = std::make_shared<HostEventState>();  // owners: this, and the event
  tiers_.chunks.read_until(a, Tier::host, Event(reading));
  tiers_.chunks.exchange(a, b, Tier::host);
  EXPECT_FALSE(tiers_.chunks.chunk(a).has_contents());
  EXPECT_TRUE(tiers_.chunks.chunk(a).at(Tier::host).quiet());
  EXPECT_TRUE(holds(tiers_, b, Tier::host, 3));
  EXPECT_FALSE(tiers_.chunks.chunk(b).at(Tier::host).quiet()) << "read until then";
  EXPECT_TRUE(tiers_.chunks.chunk(b).pinned());
  std::memset(tiers_.chunks.chunk(a).at(Tier::host).buffer.data(), 4, kBytes);
  tiers_.chunks.written(a, Tier::host);
  EXPECT_TRUE(holds(tiers_, a, Tier::device, 4));
  tiers_.chunks.exchange(a, b, Tier::host);
  tiers_.chunks.written(a, Tier::host);
  EXPECT_FALSE(tiers_.chunks.chunk(a).at(Tier::device).current) << "that has the contents in between";
  EXPECT_TRUE(holds(tiers_, a, Tier::host, 3));
  reading->complete({});
}

/// Of the host's bytes, as whoever wrote them makes them.
Checksums checksums_of(const Tiers& tiers, ChunkId id) {
  const BufferView bytes = tiers.chunks.chunk(id).at(Tier::host).buffer.view();
  return std::make_shared<std::vector<std::uint64_t>>(tiers.spill.checksums_of(bytes));  // owners: as Checksums
}

TEST_F(ChunkManagerTest, ChecksumsGoBelowWithTheBytesTheyAreOf) {
  tiers_.spill.block_bytes = 3000;
  const ChunkId a = add(tiers_, 3), b = add(tiers_, 4);
  tiers_.chunks.checked(a, checksums_of(tiers_, a));
  tiers_.chunks.exchange(a, b, Tier::host);
  ASSERT_TRUE(tiers_.chunks.write_back(a).ok());
  EXPECT_EQ(tiers_.spill.n_checked, 0);
  ASSERT_TRUE(tiers_.chunks.write_back(b).ok());
  EXPECT_EQ(tiers_.spill.n_checked, 1);
  EXPECT_EQ(tiers_.spill.n_wrong, 0);
}

TEST_F(ChunkManagerTest, ChecksumsAreForgottenWhereBytesMayChange) {
  tiers_.spill.block_bytes = 3000;
  const ChunkId id = add(tiers_, 3);
  const auto change = [&](int fill) {
    return std::memset(tiers_.chunks.chunk(id).at(Tier::host).buffer.data(), fill, kBytes);
  };
  const auto comes_unchecked = [&] { return tiers_.chunks.write_back(id).ok() && tiers_.spill.n_checked == 0; };
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
  ASSERT_TRUE(holds(tiers_, id, Tier::device, 5));
  tiers_.chunks.written(id, Tier::device);
  ASSERT_TRUE(tiers_.chunks.fetch(id, Tier::host).ok());
  EXPECT_TRUE(comes_unchecked()) << "written elsewhere, and fetched";
}

TEST_F(ChunkManagerTest, ReadersThatAreDoneAreForgotten) {
  const ChunkId id = add(tiers_, 5);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(holds(tiers_, id, Tier::device, 5));
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
  const ChunkId id = add(tiers_, 1);
  tiers_.chunks.pin(id, Tier::host);
  EXPECT_THROW((void)tiers_.chunks.release(id, Tier::host), ContractViolation);
  tiers_.chunks.unpin(id, Tier::host);
  EXPECT_THROW(tiers_.chunks.exchange(id, empty, Tier::host), ContractViolation) << "that has no memory there";
}

TEST_F(ChunkManagerTest, ACopyThatCouldNotBeWrittenStaysAndIsWrittenNextTime) {
  const ChunkId id = add(tiers_, 7);
  tiers_.spill.fail_write = 1;
  (void)tiers_.chunks.release(id, Tier::host);
  const auto reaped = reap_one(tiers_.chunks, Tier::host);
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.error().kind, ErrorKind::io);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_FALSE(tiers_.chunks.chunk(id).resident(Tier::nvme)) << "the write failed";
  tiers_.chunks.release(id, Tier::host).value();
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes);
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, OpeningACopyThatCouldNotBeWrittenKeepsIt) {
  const ChunkId id = add(tiers_, 7);
  tiers_.spill.fail_write = 1;
  (void)tiers_.chunks.release(id, Tier::host);
  EXPECT_FALSE(tiers_.chunks.open(id, Tier::host).ok());
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), 0u);
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, ChunksWhoseReadFailedAreReadAgain) {
  const ChunkId id = add(tiers_, 7);
  tiers_.chunks.release(id, Tier::host).value();
  reap_one(tiers_.chunks, Tier::host).value();
  tiers_.spill.fail_read = 1;
  EXPECT_FALSE(tiers_.chunks.fetch(id, Tier::host).value().wait().ok());
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 7));
}

TEST_F(ChunkManagerTest, ACopyWhoseReadFailedIsNotTakenForGoodAfterItsRelease) {
  const ChunkId id = add(tiers_, 7);
  tiers_.chunks.release(id, Tier::host).value();
  reap_one(tiers_.chunks, Tier::host).value();
  tiers_.spill.fail_read = 1;
  EXPECT_FALSE(tiers_.chunks.fetch(id, Tier::host).value().wait().ok());
  tiers_.chunks.release(id, Tier::host).value();
  EXPECT_EQ(reap_one(tiers_.chunks, Tier::host).value(), kBytes) << "nobody misses what never came";
  EXPECT_TRUE(holds(tiers_, id, Tier::host, 7));
}

TEST(ChunkManager, AFullTierRefusesWithItsFiguresAndChangesNothing) {
  Tiers tiers(kBytes, Budget::kUnlimited);
  for (int fill : {1, 2}) {
    const ChunkId id = tiers.chunks.add(ChunkKind::payload, kBytes, "chunk");
    std::memset(tiers.chunks.open(id, Tier::host).value().data, fill, kBytes);
    tiers.chunks.written(id, Tier::host);
  }
  ASSERT_TRUE(tiers.chunks.fetch(0, Tier::device).ok());
  const auto refused = tiers.chunks.fetch(1, Tier::device);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_FALSE(tiers.chunks.chunk(1).resident(Tier::device));
}

// The device has room for one. Nothing runs until the end: what reads the first chunk is queued before the second comes.
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
  for (const ChunkId id : {0u, 1u}) {
    ASSERT_TRUE(chunks.fetch(id, Tier::device).ok());
    EXPECT_FALSE(chunks.chunk(id).at(Tier::device).arrived.ready());
    ASSERT_TRUE(chunks.join(id).ok());
    (void)compute.copy(seen[id].data(), chunks.chunk(id).at(Tier::device).buffer.data(), kBytes);
    ASSERT_TRUE(chunks.release(id, Tier::device).ok());
    EXPECT_EQ(chunks.reap(Tier::device).value(), kBytes);
  }
  ASSERT_TRUE(compute.synchronize().ok());
  for (const ChunkId id : {0u, 1u})
    EXPECT_TRUE(std::all_of(seen[id].begin(), seen[id].end(), [id](std::byte b) { return b == std::byte(id + 1); }));
}

/// An event that says when it was reached.
class ReachedAt final : public EventState {
 public:
  explicit ReachedAt(std::uint64_t ns) : ns_(ns) {}
  bool ready() const override { return true; }
  Result<void> wait() const override { return {}; }
  std::optional<std::uint64_t> reached_ns() const override { return ns_; }

 private:
  const std::uint64_t ns_;
};

// Asked for at 1000, 2000 and 3000 ns, noticed at 100000.
TEST(ChunkManager, MovesAreRecordedAsTheyEndedAndOneAfterTheOther) {
  Tiers tiers;
  for (const std::uint64_t reached_ns : {5'000, 7'000, 900'000}) {
    const ChunkId id = tiers.chunks.add(ChunkKind::gradient, kBytes, "chunk");
    ASSERT_TRUE(tiers.chunks.open(id, Tier::host).ok());
    tiers.chunks.arriving(id, Tier::host, kBytes, Event(std::make_shared<ReachedAt>(reached_ns)));
  }
  tiers.now_ns = 97'000;
  ASSERT_TRUE(tiers.chunks.drain().ok());
  const auto spans = tiers.timeline.spans();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].start_ns, 1'000u);
  EXPECT_EQ(spans[0].end_ns, 5'000u);
  EXPECT_EQ(spans[1].start_ns, 5'000u);
  EXPECT_EQ(spans[1].end_ns, 7'000u);
  EXPECT_EQ(spans[2].end_ns, 100'000u) << "never later than it is noticed";
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
