// SPDX-License-Identifier: Apache-2.0
#include "files/file_room.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>

#include <castor/io/folder.h>
#include <castor/memory/bytes.h>

#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

constexpr auto kNoBound = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kPlenty = 1000 * kGiB;

TEST(PlanGrowth, IsAnEighthOfTheFileWithin64MiBAnd1GiB) {
  EXPECT_EQ(plan_growth(0, 4096, kPlenty, kNoBound), 64 * kMiB);
  EXPECT_EQ(plan_growth(kGiB, kGiB + 4096, kPlenty, kNoBound), kGiB + 128 * kMiB);
  EXPECT_EQ(plan_growth(100 * kGiB, 100 * kGiB + 4096, kPlenty, kNoBound), 101 * kGiB);
}

TEST(PlanGrowth, IsWhatIsNeededWhereThatIsMore) {
  EXPECT_EQ(plan_growth(0, 70 * kMiB, kPlenty, kNoBound), 70 * kMiB);
  EXPECT_EQ(plan_growth(kGiB, 2 * kGiB, kPlenty, kNoBound), 2 * kGiB);
}

TEST(PlanGrowth, IsExactOnADriveThatIsNearlyFull) {
  EXPECT_EQ(plan_growth(0, 4096, 8 * 64 * kMiB + 4096, kNoBound), 64 * kMiB);
  EXPECT_EQ(plan_growth(0, 4096, 8 * 64 * kMiB, kNoBound), 4096u);
  EXPECT_EQ(plan_growth(0, 4096, 0, kNoBound), 4096u);
}

TEST(PlanGrowth, GoesNoFurtherAheadThanItMay) {
  EXPECT_EQ(plan_growth(0, 4096, kPlenty, 0), 4096u);
  EXPECT_EQ(plan_growth(0, 4096, kPlenty, 8192), 12288u);
}

class FileRoomTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (available_bytes(folder_.path()).value() < kGiB) GTEST_SKIP() << "less than 1 GiB is free here";
    file_.reserve(0, 4096).value();
    if (on_drive() == 0) GTEST_SKIP() << "the file system of " << folder_.path() << " sets no room aside";
    file_.cut(0).value();
  }
  std::uint64_t on_drive() const {
    struct stat facts {};
    EXPECT_EQ(fstat(file_.fd(), &facts), 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
  }

  ScratchFolder folder_;
  DirectFile file_ = DirectFile::create_unnamed(folder_.path()).value();
  FileRoom room_{file_};
};

TEST_F(FileRoomTest, SetsRoomAsideAheadOnce) {
  ASSERT_TRUE(room_.back({0, kMiB}, true, kNoBound).ok());
  EXPECT_EQ(room_.end_bytes(), 64 * kMiB);
  EXPECT_GE(on_drive(), 64 * kMiB);
  ASSERT_TRUE(room_.back({kMiB, kMiB}, true, kNoBound).ok());
  EXPECT_EQ(room_.end_bytes(), 64 * kMiB);
}

TEST_F(FileRoomTest, GivesBackWhatLiesBeyondTheEnd) {
  ASSERT_TRUE(room_.back({0, kMiB}, true, kNoBound).ok());
  room_.cut(kMiB);
  EXPECT_EQ(room_.end_bytes(), kMiB);
  EXPECT_EQ(file_.size_bytes().value(), kMiB);
  EXPECT_LT(on_drive(), 2 * kMiB);
}

TEST_F(FileRoomTest, AGapThatWasPunchedGetsItsRoomAgain) {
  ASSERT_TRUE(room_.back({0, 8 * kMiB}, true, 0).ok());
  ASSERT_TRUE(file_.punch(0, 4 * kMiB).ok());
  EXPECT_LT(on_drive(), 5 * kMiB);
  ASSERT_TRUE(room_.back({0, 4 * kMiB}, false, 0).ok());
  EXPECT_GE(on_drive(), 8 * kMiB);
}

TEST_F(FileRoomTest, WhatClaimsHoldIsThereAlready) {
  room_.start_at(8 * kMiB);
  ASSERT_TRUE(room_.back({8 * kMiB, kMiB}, true, 0).ok());
  EXPECT_LT(on_drive(), 2 * kMiB);  // nothing below was touched
  EXPECT_EQ(file_.size_bytes().value(), 9 * kMiB);
}

TEST_F(FileRoomTest, WhatCannotBeHadLeavesTheRoomAsItWas) {
  ASSERT_TRUE(room_.back({0, kMiB}, true, 0).ok());
  const auto refused = room_.back({kMiB, 1ull << 60}, true, kNoBound);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(room_.end_bytes(), kMiB);
  EXPECT_EQ(file_.size_bytes().value(), kMiB);
  EXPECT_LT(on_drive(), 2 * kMiB);
}

}  // namespace
}  // namespace castor::test
