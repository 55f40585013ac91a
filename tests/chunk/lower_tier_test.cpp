// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/lower_tier.h>

#include <gtest/gtest.h>

#include "filled_chunks.h"

namespace castor {
namespace {

using LowerTierTest = FilledChunks;

TEST_F(LowerTierTest, WritingBackKeepsTheCopyAndIsDoneOnce) {
  const ChunkId id = add(5);
  ASSERT_TRUE(tiers_.chunks.below().write_back(id).ok());
  ASSERT_TRUE(tiers_.chunks.below().write_back(id).ok());
  ASSERT_TRUE(tiers_.chunks.settle(id, Tier::host).ok());
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, kBytes);
  EXPECT_TRUE(tiers_.chunks.chunk(id).resident(Tier::host));
  EXPECT_TRUE(tiers_.chunks.chunk(id).clean(Tier::host)) << "leaving costs nothing now";
  tiers_.chunks.written(id, Tier::host);
  ASSERT_TRUE(tiers_.chunks.below().write_back(id).ok());
  EXPECT_EQ(tiers_.chunks.moved().nvme_write, 2 * kBytes) << "bytes that have changed are written again";
}

TEST_F(LowerTierTest, AFirstWriteTakesRoomOfOutdatedContents) {
  const ChunkId a = add(1), b = add(2), c = add(3);
  const auto below = [this] {
    std::vector<ChunkId> found;
    for (const auto& [id, bytes] : tiers_.spill.contents) found.push_back(id);
    return found;
  };
  tiers_.chunks.below().write_back(a).value();
  tiers_.chunks.written(a, Tier::host);
  EXPECT_EQ(below(), std::vector{a}) << "a chunk keeps its room until another one needs it";
  tiers_.chunks.below().write_back(b).value();
  EXPECT_EQ(below(), std::vector{b});
  tiers_.chunks.below().write_back(a).value();
  EXPECT_EQ(below(), (std::vector{a, b})) << "that of b is needed";
  tiers_.chunks.written(b, Tier::host);
  tiers_.chunks.below().write_back(b).value();
  tiers_.chunks.below().write_back(c).value();
  EXPECT_EQ(below(), (std::vector{a, b, c})) << "b is up to date again";
  for (const auto& [id, fill] : {std::pair{a, 1}, {b, 2}, {c, 3}}) {
    tiers_.chunks.release(id, Tier::host).value();
    tiers_.chunks.reap(Tier::host).value();
    EXPECT_TRUE(holds(id, Tier::host, fill));
  }
}

TEST_F(LowerTierTest, RoomBelowThatIsTooSmallIsLeftAlone) {
  const ChunkId small = add(1), large = add(2, 2 * kBytes);
  tiers_.chunks.below().write_back(small).value();
  tiers_.chunks.written(small, Tier::host);
  tiers_.chunks.below().write_back(large).value();
  EXPECT_EQ(tiers_.spill.contents.size(), 2u);
  tiers_.chunks.discard(small).value();
  EXPECT_EQ(tiers_.spill.contents.count(small), 0u) << "forgotten, though out of date";
}

TEST_F(LowerTierTest, SpilledContentsReplaceAllCopies) {
  const ChunkId id = add(5);
  EXPECT_TRUE(holds(id, Tier::device, 5));
  tiers_.spill.contents[id].assign(kBytes, std::byte{8});
  tiers_.chunks.below().spilled(id);
  EXPECT_TRUE(tiers_.chunks.drain().ok());
  for (const Tier tier : {Tier::device, Tier::host}) EXPECT_EQ(reap_one(tiers_.chunks, tier).value(), kBytes);
  EXPECT_TRUE(holds(id, Tier::host, 8));
}

TEST_F(LowerTierTest, OfTheOutdatedRoomTheSmallestThatIsLargeEnoughIsTaken) {
  const ChunkId small = add(1), large = add(2, 3 * kBytes), middle = add(3, 2 * kBytes), next = add(4, 2 * kBytes);
  for (const ChunkId id : {small, large, middle}) tiers_.chunks.below().write_back(id).value();
  for (const ChunkId id : {small, large, middle}) tiers_.chunks.written(id, Tier::host);
  tiers_.chunks.below().write_back(next).value();
  EXPECT_EQ(tiers_.spill.contents.count(middle), 0u);
  EXPECT_EQ(tiers_.spill.contents.count(small) + tiers_.spill.contents.count(large), 2u);
}

TEST_F(LowerTierTest, AFullStoreGivesUpWhatIsOutdatedAndThenWhatIsElsewhereToo) {
  const ChunkId one = add(1), two = add(2), copied = add(3), alone = add(4), large = add(5, 2 * kBytes), last = add(6);
  tiers_.spill.limit_bytes = 4 * kBytes;
  for (const ChunkId id : {one, two, copied, alone}) tiers_.chunks.below().write_back(id).value();
  for (const ChunkId id : {one, two}) tiers_.chunks.written(id, Tier::host);
  tiers_.chunks.release(alone, Tier::host).value();
  tiers_.chunks.reap(Tier::host).value();
  const auto below = [this](ChunkId id) { return tiers_.spill.contents.contains(id); };

  tiers_.chunks.below().write_back(large).value();
  EXPECT_FALSE(below(one) || below(two)) << "neither alone has room for it";
  EXPECT_TRUE(below(copied) && below(alone) && below(large));

  tiers_.chunks.below().write_back(last).value();
  EXPECT_FALSE(below(copied)) << "the host has it";
  EXPECT_TRUE(below(alone) && below(large) && below(last));
  EXPECT_FALSE(tiers_.chunks.chunk(copied).clean(Tier::host)) << "it is the only one now";

  for (const ChunkId id : {large, last}) tiers_.chunks.release(id, Tier::host).value();
  const auto refused = tiers_.chunks.below().write_back(one);
  ASSERT_FALSE(refused.ok()) << "all that is there is there alone";
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  for (const auto& [id, fill] : {std::pair{one, 1}, {copied, 3}, {alone, 4}, {last, 6}})
    EXPECT_TRUE(holds(id, Tier::host, fill));
}

TEST_F(LowerTierTest, ContentsWhoseReadHasFailedStay) {
  const ChunkId lost = add(1), other = add(2);
  tiers_.spill.limit_bytes = kBytes;
  tiers_.chunks.below().write_back(lost).value();
  tiers_.chunks.release(lost, Tier::host).value();
  tiers_.chunks.reap(Tier::host).value();
  tiers_.spill.fail_read = tiers_.spill.n_reads + 1;
  (void)tiers_.chunks.fetch(lost, Tier::host);
  EXPECT_FALSE(tiers_.chunks.below().write_back(other).ok());
  EXPECT_TRUE(tiers_.spill.contents.contains(lost));
}

TEST(LowerTier, WithoutASpillStoreNothingIsWrittenBack) {
  Tiers tiers(Budget::kUnlimited, Budget::kUnlimited, false);
  EXPECT_EQ(tiers.chunks.below().spill(), nullptr);
  const ChunkId id = tiers.chunks.add(ChunkKind::payload, kBytes, "chunk");
  ASSERT_TRUE(tiers.chunks.open(id, Tier::host).ok());
  EXPECT_THROW((void)tiers.chunks.below().write_back(id), ContractViolation) << "it has no contents yet";
  tiers.chunks.written(id, Tier::host);
  const auto refused = tiers.chunks.below().write_back(id);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor
