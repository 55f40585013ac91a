// SPDX-License-Identifier: Apache-2.0
// Answers that the kernel gives on a ring only under stress, in place of its real ones.
#include "uring/uring_engine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/unique_fd.h>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

class UringEngineTest : public ::testing::Test {
 protected:
  void open(UringEngine::AnswerFilter filter, const IoEngineOptions& options = {}) {
    auto made = UringEngine::make(options, std::move(filter));
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
  EXPECT_EQ(kernel_answers, (std::vector<int>{4096, 4096, 3584, 3584, 2560, 2560}));  // the bytes left each time
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
  // More round trips than a request has pauses, in less time than those pauses take (two seconds).
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (int i = 0; i < 3000 && std::chrono::steady_clock::now() < end; ++i)
    engine_->submit(null.write_request(0, out.view().part(0, 4096))).wait().value();
  EXPECT_FALSE(waiting.ready());
  busy = false;
  EXPECT_TRUE(waiting.wait().ok());
}

/// Reads a page of a pipe, and has events for the start and the end.
class PageRead final : public IoSink {
 public:
  explicit PageRead(int fd) : fd_(fd) {}
  IoRequest request() const { return {IoOp::read, fd_, "/pipe", 0, page_.view()}; }
  void on_start(const IoRequest&) noexcept override { started_->complete({}); }
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    error_number_ = outcome.error_number;
    const auto kept = ended_;  // once it is complete, this may be destroyed
    kept->complete({});
    return std::nullopt;
  }
  Event started() const { return Event(started_); }
  Event ended() const { return Event(ended_); }
  int error_number() const { return error_number_; }

 private:
  const int fd_;
  const TestBuffer page_{4096};
  std::shared_ptr<HostEventState> started_ = std::make_shared<HostEventState>();
  std::shared_ptr<HostEventState> ended_ = std::make_shared<HostEventState>();
  int error_number_ = 0;
};

TEST_F(UringEngineTest, BeyondItsDepthTheKernelGetsNothingButSinksAreMadeReady) {
  int silent[2], filled[2];
  ASSERT_EQ(pipe(silent), 0);
  ASSERT_EQ(pipe(filled), 0);
  const UniqueFd silent_out(silent[0]), silent_in(silent[1]), filled_out(filled[0]), filled_in(filled[1]);
  const std::vector<char> page(4096, 1);
  ASSERT_EQ(write(filled_in.get(), page.data(), page.size()), 4096);
  IoEngineOptions options;
  options.depth = 4;
  options.kernel_depth = 1;
  PageRead blocked(silent_out.get()), recalled(filled_out.get()), behind(filled_out.get());
  open({}, options);
  if (!engine_) return;
  for (PageRead* read : {&blocked, &recalled, &behind}) engine_->start(read->request(), *read);
  for (const PageRead* read : {&blocked, &recalled, &behind}) read->started().wait().value();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(recalled.ended().ready());  // its bytes have arrived, but the kernel was not asked for them
  engine_->cancel(recalled);
  recalled.ended().wait().value();
  EXPECT_EQ(recalled.error_number(), ECANCELED);
  EXPECT_FALSE(behind.ended().ready());
  ASSERT_EQ(write(silent_in.get(), page.data(), page.size()), 4096);
  blocked.ended().wait().value();
  behind.ended().wait().value();
  EXPECT_EQ(blocked.error_number(), 0);
  EXPECT_EQ(behind.error_number(), 0);
  engine_.reset();
}

}  // namespace
}  // namespace castor::test
