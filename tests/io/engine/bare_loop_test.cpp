// SPDX-License-Identifier: Apache-2.0
#include <castor/io/bare_loop.h>

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <castor/io/direct_file.h>
#include <castor/io/io_engine.h>
#include <castor/memory/bytes.h>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor {
namespace {

constexpr std::uint64_t kBlock = 64 * kKiB, kFile = 2 * kMiB;
constexpr unsigned kDepth = 4;

bool never() { return false; }

class BareLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto ring = probe_io_uring(); !ring.ok()) GTEST_SKIP() << ring.error().message;
    file_.reserve(0, kFile).value();
  }
  BareLoopJob job(unsigned read_percent) const {
    return {{file_.fd()}, kFile, kBlock, kDepth, read_percent, false, true, 0.01, memory_.view()};
  }

  test::ScratchFolder folder_;
  DirectFile file_ = DirectFile::create_unnamed(folder_.path()).value();
  test::TestBuffer memory_{kDepth * kBlock, 7};
};

TEST_F(BareLoopTest, WritesWhatReadsGiveBack) {
  const auto written = run_bare_loop(job(0), never).value();
  EXPECT_EQ(written.read_bytes, 0u);
  EXPECT_GE(written.written_bytes, kDepth * kBlock);
  EXPECT_EQ(written.written_bytes % kBlock, 0u);
  EXPECT_GE(written.seconds, 0.01);
  memory_.fill(8);
  const auto read = run_bare_loop(job(100), never).value();
  EXPECT_EQ(read.written_bytes, 0u);
  EXPECT_GE(read.read_bytes, kDepth * kBlock);
  EXPECT_FALSE(memory_.holds(8));
}

TEST_F(BareLoopTest, WalksThroughAllOfItsMemory) {
  constexpr std::uint64_t kParts = 5 * kDepth;
  test::TestBuffer wide(kParts * kBlock, 7);
  BareLoopJob reads = job(100);
  reads.memory = wide.view();
  wide.fill(8);
  while (run_bare_loop(reads, never).value().read_bytes < kParts * kBlock) reads.seconds *= 2;
  std::uint64_t n_untouched = 0;
  for (std::uint64_t i = 0; i < kParts * kBlock; ++i) n_untouched += wide.data()[i] == test::TestBuffer::at(8, i);
  EXPECT_LT(n_untouched, kBlock) << "what was only set aside reads as zeros, of 256 bytes one is that by chance";
}

TEST_F(BareLoopTest, MixedIsHalfAndHalf) {
  const auto both = run_bare_loop(job(50), never).value();
  const auto difference = both.read_bytes > both.written_bytes ? both.read_bytes - both.written_bytes
                                                               : both.written_bytes - both.read_bytes;
  EXPECT_LE(difference, kBlock);
}

TEST_F(BareLoopTest, RandomOffsetsStayInTheFile) {
  BareLoopJob random = job(0);
  random.random = true;
  run_bare_loop(random, never).value();
  struct stat facts {};
  ASSERT_EQ(::fstat(file_.fd(), &facts), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(facts.st_size), kFile);
}

TEST_F(BareLoopTest, OneByOneItMovesTheSame) {
  BareLoopJob one_by_one = job(0);
  one_by_one.batches = false;
  EXPECT_GE(run_bare_loop(one_by_one, never).value().written_bytes, kDepth * kBlock);
  memory_.fill(8);
  one_by_one.read_percent = 100;
  EXPECT_GE(run_bare_loop(one_by_one, never).value().read_bytes, kDepth * kBlock);
  EXPECT_FALSE(memory_.holds(8));
}

TEST_F(BareLoopTest, StopsWhenAsked) {
  BareLoopJob endless = job(0);
  endless.seconds = 1e6;
  int n_asked = 0;
  EXPECT_GT(run_bare_loop(endless, [&] { return ++n_asked == 3; }).value().written_bytes, 0u);
}

TEST_F(BareLoopTest, AReadPastTheEndIsAnError) {
  BareLoopJob past = job(100);
  past.file_bytes = 2 * kFile;
  past.seconds = 1e6;
  EXPECT_EQ(run_bare_loop(past, never).error().kind, ErrorKind::io);
}

TEST_F(BareLoopTest, MemoryForLessThanTheDepthIsRefused) {
  BareLoopJob small = job(0);
  small.memory = memory_.view().part(0, kBlock);
  EXPECT_THROW((void)run_bare_loop(small, never), ContractViolation);
}

}  // namespace
}  // namespace castor
