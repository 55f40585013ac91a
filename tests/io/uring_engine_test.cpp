// SPDX-License-Identifier: Apache-2.0
// What the kernel answers on a ring only when it is in trouble, put in the place of its real answers.
#include "uring/uring_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>

#include "support/scratch_folder.h"
#include "support/test_buffer.h"

namespace castor::test {
namespace {

class UringEngineTest : public ::testing::Test {
 protected:
  void open(UringEngine::AnswerFilter filter) {
    auto made = UringEngine::make({}, std::move(filter));
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    engine_ = std::move(made).value();
  }
  std::unique_ptr<IoEngine> engine_;
};

TEST_F(UringEngineTest, ResumesAfterInterruptionsPausesAndShortTransfers) {
  std::vector<int> kernel_answers;
  const std::vector<int> script = {-EINTR, 512, -EAGAIN, 1024, -EINTR};
  open([&](int answer) {
    kernel_answers.push_back(answer);
    return kernel_answers.size() <= script.size() ? script[kernel_answers.size() - 1] : answer;
  });
  if (!engine_) return;
  const ScratchFolder folder;
  const DirectFile file = DirectFile::create_unnamed(folder.path()).value();
  const TestBuffer out(4096, 1), in(4096);
  if (file.offset_align_bytes() > 512)
    GTEST_SKIP() << "this drive has sectors of " << file.offset_align_bytes() << " bytes";
  EXPECT_TRUE(engine_->submit(file.write_request(0, out.view())).wait().ok());
  EXPECT_EQ(kernel_answers, (std::vector<int>{4096, 4096, 3584, 3584, 2560, 2560}));  // what was left to move each time
  EXPECT_TRUE(engine_->submit(file.read_request(0, in.view())).wait().ok());
  EXPECT_TRUE(in.holds(1));
}

TEST_F(UringEngineTest, OtherTrafficDoesNotShortenTheWaitOfAnother) {
  std::atomic<bool> busy{true};
  open([&](int answer) { return answer == 8192 && busy ? -EAGAIN : answer; });
  if (!engine_) return;
  const DirectFile null = DirectFile::open("/dev/null", DirectFile::Mode::write).value();
  const TestBuffer out(8192, 1);
  const Event waiting = engine_->submit(null.write_request(0, out.view()));
  // More round trips than a request gets pauses, in less time than those pauses take (two seconds).
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < 3000 && std::chrono::steady_clock::now() < end; ++i)
    engine_->submit(null.write_request(0, out.view().part(0, 4096))).wait().value();
  EXPECT_FALSE(waiting.ready());
  busy = false;
  EXPECT_TRUE(waiting.wait().ok());
}

}  // namespace
}  // namespace castor::test
