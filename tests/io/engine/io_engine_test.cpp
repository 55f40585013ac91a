// SPDX-License-Identifier: Apache-2.0
#include <castor/io/io_engine.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../../conformance/io_engine_suite.h"
#include "../../support/drives/faulty_engine.h"
#include "threads/threads_engine.h"

namespace castor::test {
namespace {

IoEngineCase uring(const char* name, bool sqpoll, bool iopoll) {
  return {name, [=] {
            IoEngineOptions options;
            options.choice = EngineChoice::uring;
            options.sqpoll = sqpoll;
            options.iopoll = iopoll;
            return make_io_engine(options);
          }};
}

IoEngineCase threads() {
  return {"threads", [] { return make_io_engine(EngineChoice::threads); }};
}

IoEngineCase faulty_without_faults() {
  return {"faulty_without_faults", []() -> Result<std::unique_ptr<IoEngine>> {
            return std::unique_ptr<IoEngine>(new FaultyEngine(make_io_engine(EngineChoice::threads).value()));
          }};
}

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineSuite,
                         ::testing::Values(uring("uring", false, false), uring("uring_sqpoll", true, false),
                                           uring("uring_iopoll", false, true), threads(), faulty_without_faults()),
                         [](const auto& info) { return info.param.name; });

TEST(IoEngine, OptionsOutOfRangeAreRefused) {
  IoEngineOptions options;
  options.depth = 0;
  EXPECT_EQ(make_io_engine(options).error().message, "an I/O engine takes a depth of 1 to 4096, not 0");
  options.depth = 1;
  options.n_threads = 257;
  EXPECT_EQ(make_io_engine(options).error().message, "an I/O engine takes 1 to 256 threads, not 257");
}

TEST(IoEngine, BestIsIoUringWhereItWorks) {
  const auto probe = probe_io_uring();
  const auto engine = make_io_engine(EngineChoice::best).value();
  EXPECT_EQ(engine->name(), probe.ok() ? "io_uring" : "threads");
  EXPECT_EQ(engine->fallback_reason().empty(), probe.ok());
}

TEST(IoEngine, ThreadsThatWereAskedForAreNoFallback) {
  const auto engine = make_io_engine(EngineChoice::threads).value();
  EXPECT_EQ(engine->name(), "threads");
  EXPECT_EQ(engine->fallback_reason(), "");
}

TEST(IoEngine, NamesOfChoicesAreRead) {
  EXPECT_EQ(parse_engine_choice("best").value(), EngineChoice::best);
  EXPECT_EQ(parse_engine_choice("uring").value(), EngineChoice::uring);
  EXPECT_EQ(parse_engine_choice("threads").value(), EngineChoice::threads);
  EXPECT_EQ(parse_engine_choice("null").value(), EngineChoice::null);
  const auto refused = parse_engine_choice("aio");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message, "'aio' is no I/O engine; there are best, uring, threads and null");
}

/// A kernel that gives the scripted answers, then moves all bytes of each call.
class ScriptedKernel {
 public:
  explicit ScriptedKernel(std::vector<std::int64_t> answers) : answers_(std::move(answers)) {}

  std::int64_t operator()(const TransferPart& part) {
    offsets.push_back(part.offset_bytes);
    return offsets.size() <= answers_.size() ? answers_[offsets.size() - 1] : static_cast<std::int64_t>(part.n_bytes);
  }
  std::vector<std::uint64_t> offsets;

 private:
  std::vector<std::int64_t> answers_;
};

TEST(ThreadsEngine, ResumesAfterInterruptionsPausesAndShortTransfers) {
  ScriptedKernel kernel({-EINTR, 512, -EAGAIN, 1024, -EINTR});
  ThreadsEngine engine(IoEngineOptions{}, {"threads", {}}, std::ref(kernel));
  const TestBuffer out(4096, 1);
  EXPECT_TRUE(engine.submit({IoOp::write, 0, "x", 100 * 512, out.view(), kNoDeadline}).wait().ok());
  EXPECT_EQ(kernel.offsets, (std::vector<std::uint64_t>{51200, 51200, 51712, 51712, 52736, 52736}));
}

/// A kernel whose calls block until they are released.
class BlockedKernel {
 public:
  std::int64_t operator()(const TransferPart& part) {
    std::unique_lock lock(mutex_);
    ++n_inside_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    return static_cast<std::int64_t>(part.n_bytes);
  }
  void wait_until_inside(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return n_inside_ == n; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_inside_ = 0;
  bool open_ = false;
};

/// Keeps the outcome of its request.
class KeepingSink final : public IoSink {
 public:
  void on_start(const IoRequest&) noexcept override { started = true; }
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    error_number = outcome.error_number;
    const auto kept = told;
    kept->complete({});
    return std::nullopt;
  }
  std::atomic<bool> started = false;
  int error_number = 0;
  std::shared_ptr<HostEventState> told = std::make_shared<HostEventState>();
};

TEST(ThreadsEngine, WhatWaitsIsRecalledWhileEveryThreadIsBlocked) {
  BlockedKernel kernel;
  IoEngineOptions options;
  options.n_threads = 2;
  ThreadsEngine engine(options, {"threads", {}}, std::ref(kernel));
  const TestBuffer bytes(4096);
  const IoRequest request{IoOp::write, 0, "x", 0, bytes.view(), kNoDeadline};
  KeepingSink blocked[2], cancelled, late;
  for (auto& sink : blocked) engine.start(request, sink);
  kernel.wait_until_inside(2);
  engine.start(request, cancelled);
  IoRequest with_deadline = request;
  with_deadline.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
  engine.start(with_deadline, late);
  engine.cancel(cancelled);
  cancelled.told->wait().value();
  late.told->wait().value();
  EXPECT_EQ(cancelled.error_number, ECANCELED);
  EXPECT_EQ(late.error_number, ETIMEDOUT);
  EXPECT_FALSE(cancelled.started || late.started);
  kernel.let_go();
  for (auto& sink : blocked) {
    sink.told->wait().value();
    EXPECT_EQ(sink.error_number, 0);
  }
}

TEST(NullEngine, EndsEveryRequestAndTouchesNothing) {
  const auto engine = make_io_engine(EngineChoice::null).value();
  EXPECT_EQ(engine->name(), "null");
  const TestBuffer bytes(4096, 3);
  EXPECT_TRUE(engine->submit({IoOp::read, -1, "/nowhere", 0, bytes.view(), kNoDeadline}).wait().ok());
  EXPECT_TRUE(bytes.holds(3));
}

}  // namespace
}  // namespace castor::test
