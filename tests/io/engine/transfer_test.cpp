// SPDX-License-Identifier: Apache-2.0
#include "engine/transfer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

class NoSink final : public IoSink {
 public:
  std::optional<IoRequest> on_complete(const IoOutcome&) noexcept override { return std::nullopt; }
};

class TransferTest : public ::testing::Test {
 protected:
  /// The test touches no byte, so any address will do.
  Transfer& transfer(IoOp op, std::uint64_t offset_bytes, std::uint64_t n_bytes, IoDeadline deadline = kNoDeadline) {
    auto& made = *transfers_.emplace_back(std::make_unique<Transfer>());
    made.reset({op, 3, "/x", offset_bytes, {reinterpret_cast<std::byte*>(0x100000), n_bytes}, deadline}, sink_);
    return made;
  }
  static std::string message(const Transfer& ended) { return io_error(ended.request(), ended.outcome()).message; }

  NoSink sink_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

TEST_F(TransferTest, AsksForEverythingAtOnceUpToOneGiB) {
  const auto part = transfer(IoOp::write, 4096, kGiB).next();
  EXPECT_EQ(part.n_bytes, 1073741824u);
  EXPECT_EQ(part.offset_bytes, 4096u);
  EXPECT_EQ(part.fd, 3);
}

TEST_F(TransferTest, SplitsWhatIsLargerThanOneGiB) {
  auto& large = transfer(IoOp::read, 4096, 5 * kGiB / 2);
  EXPECT_EQ(large.next().n_bytes, 1073741824u);
  EXPECT_EQ(large.advance(1073741824), Transfer::Step::again);
  EXPECT_EQ(large.next().offset_bytes, 4096u + 1073741824u);
  EXPECT_EQ(large.next().data, reinterpret_cast<std::byte*>(0x100000 + 1073741824ull));
  EXPECT_EQ(large.advance(1073741824), Transfer::Step::again);
  EXPECT_EQ(large.next().n_bytes, 536870912u);
  EXPECT_EQ(large.advance(536870912), Transfer::Step::done);
  EXPECT_EQ(large.outcome().moved_bytes, 2684354560u);
}

TEST_F(TransferTest, ResumesAShortTransferWhereItStopped) {
  auto& write = transfer(IoOp::write, 1000, 100);
  EXPECT_EQ(write.advance(30), Transfer::Step::again);
  EXPECT_EQ(write.next().n_bytes, 70u);
  EXPECT_EQ(write.next().offset_bytes, 1030u);
  EXPECT_EQ(write.next().data, reinterpret_cast<std::byte*>(0x100000 + 30));
  EXPECT_EQ(write.advance(70), Transfer::Step::done);
  EXPECT_EQ(write.outcome().moved_bytes, 100u);
}

TEST_F(TransferTest, AnInterruptionIsTriedAgainAtOnce) {
  auto& read = transfer(IoOp::read, 0, 10);
  EXPECT_EQ(read.advance(-EINTR), Transfer::Step::again);
  EXPECT_EQ(read.next().n_bytes, 10u);
  EXPECT_EQ(read.advance(10), Transfer::Step::done);
  EXPECT_TRUE(read.outcome().ok());
}

TEST_F(TransferTest, TryAgainIsTriedLaterButNotForEver) {
  auto& read = transfer(IoOp::read, 0, 10);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(read.advance(-EAGAIN), Transfer::Step::again_later);
  ASSERT_EQ(read.advance(-EAGAIN), Transfer::Step::done);
  EXPECT_NE(message(read).find("Resource temporarily unavailable"), std::string::npos);
}

TEST_F(TransferTest, ProgressStartsTheCountOfPausesAnew) {
  auto& read = transfer(IoOp::read, 0, 10);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(read.advance(-EAGAIN), Transfer::Step::again_later);
  ASSERT_EQ(read.advance(5), Transfer::Step::again);
  EXPECT_EQ(read.advance(-EAGAIN), Transfer::Step::again_later);
}

TEST_F(TransferTest, AnErrorAfterHalfTheWaySaysSo) {
  auto& write = transfer(IoOp::write, 8192, 2 * kMiB);
  EXPECT_EQ(write.advance(1048576), Transfer::Step::again);
  EXPECT_EQ(write.advance(-EIO), Transfer::Step::done);
  EXPECT_EQ(write.outcome().error_number, EIO);
  EXPECT_EQ(write.outcome().moved_bytes, 1048576u);
  EXPECT_EQ(message(write),
            "write of 2.00 MiB (2097152 bytes) at offset 8192 of /x failed after 1048576 bytes: Input/output error; "
            "the drive failed: "
            "look at the kernel's log (dmesg) and name a folder on another drive");
}

TEST_F(TransferTest, AWriteThatMovesNothingIsAnError) {
  auto& write = transfer(IoOp::write, 0, 512);
  EXPECT_EQ(write.advance(0), Transfer::Step::done);
  EXPECT_NE(message(write).find("stopped after 0 bytes"), std::string::npos);
}

TEST_F(TransferTest, PastItsDeadlineNothingMoreIsAskedFor) {
  const IoDeadline past = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  for (const std::int64_t answer : {-EINTR, -EAGAIN, 512}) {
    auto& late = transfer(IoOp::write, 0, 1024, past);
    EXPECT_EQ(late.advance(answer), Transfer::Step::done);
    EXPECT_EQ(late.outcome().error_number, ETIMEDOUT);
    EXPECT_EQ(late.outcome().moved_bytes, answer > 0 ? 512u : 0u);
  }
  auto& complete = transfer(IoOp::write, 0, 1024, past);
  EXPECT_EQ(complete.advance(1024), Transfer::Step::done);
  EXPECT_TRUE(complete.outcome().ok());
  auto& in_time = transfer(IoOp::write, 0, 1024, past + std::chrono::hours(1));
  EXPECT_EQ(in_time.advance(-EINTR), Transfer::Step::again);
  EXPECT_EQ(in_time.advance(-EAGAIN), Transfer::Step::again_later);
}

TEST_F(TransferTest, ARecallEndsWhatIsNotComplete) {
  auto& waiting = transfer(IoOp::read, 0, 1024);
  waiting.recall(ECANCELED);
  EXPECT_EQ(waiting.outcome().error_number, ECANCELED);
  auto& half = transfer(IoOp::read, 0, 1024);
  half.recall(ETIMEDOUT);
  EXPECT_EQ(half.advance(512), Transfer::Step::done);
  EXPECT_EQ(half.outcome().error_number, ETIMEDOUT);
  EXPECT_EQ(half.outcome().moved_bytes, 512u);
  auto& whole = transfer(IoOp::read, 0, 1024);
  whole.recall(ETIMEDOUT);
  EXPECT_EQ(whole.advance(1024), Transfer::Step::done);
  EXPECT_TRUE(whole.outcome().ok());
  auto& called_back = transfer(IoOp::write, 0, 1024);
  called_back.recall(ETIMEDOUT);
  EXPECT_EQ(called_back.advance(-ECANCELED), Transfer::Step::done);
  EXPECT_EQ(called_back.outcome().error_number, ETIMEDOUT);
  for (const int answer : {-EINTR, -EAGAIN}) {
    auto& again = transfer(IoOp::write, 0, 1024);
    again.recall(ECANCELED);
    EXPECT_EQ(again.advance(answer), Transfer::Step::done);
    EXPECT_EQ(again.outcome().error_number, ECANCELED);
  }
}

TEST_F(TransferTest, ASyncIsDoneWithItsFirstAnswer) {
  auto& sync = transfer(IoOp::sync, 0, 0);
  EXPECT_FALSE(sync.empty());
  EXPECT_EQ(sync.advance(0), Transfer::Step::done);
  EXPECT_EQ(sync.outcome().moved_bytes, 0u);
  auto& failed = transfer(IoOp::sync, 0, 0);
  EXPECT_EQ(failed.advance(-ENOSPC), Transfer::Step::done);
  EXPECT_EQ(
      message(failed),
      "sync of /x failed: No space left on device; free space there or name a folder on another drive with `nvme`");
}

}  // namespace
}  // namespace castor
