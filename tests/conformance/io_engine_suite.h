// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/io_engine.h>
#include <castor/io/unique_fd.h>

#include "conformance/endless_buffer.h"
#include "support/sanitizers.h"
#include "support/scratch_folder.h"
#include "support/test_buffer.h"

namespace castor::test {

/// One engine under test, and the function that makes it.
struct IoEngineCase {
  std::string name;
  std::function<Result<std::unique_ptr<IoEngine>>()> make;
};

/// The contract of IoEngine (castor/io/io_engine.h), to be instantiated for every engine with its IoEngineCase.
class IoEngineSuite : public ::testing::TestWithParam<IoEngineCase> {
 protected:
  void SetUp() override {
    auto made = GetParam().make();
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    engine_ = std::move(made).value();
  }

  DirectFile new_file() const { return DirectFile::create_unnamed(folder_.path()).value(); }

  ScratchFolder folder_;
  std::unique_ptr<IoEngine> engine_;
};

TEST_P(IoEngineSuite, ReadsBackWhatWasWritten) {
  const DirectFile file = new_file();
  for (const std::uint64_t n_bytes : {4096ull, 8192ull, 1024ull * 1024, 5ull * 1024 * 1024 + 4096}) {
    const TestBuffer out(n_bytes, n_bytes), in(n_bytes);
    engine_->submit(file.write_request(12288, out.view())).wait().value();
    engine_->submit(file.read_request(12288, in.view())).wait().value();
    EXPECT_TRUE(in.holds(n_bytes)) << n_bytes << " bytes";
  }
}

TEST_P(IoEngineSuite, WritesOnlyWhereItWasTold) {
  const DirectFile file = new_file();
  const TestBuffer ground(3 * 4096, 1), middle(4096, 2), in(4096);
  engine_->submit(file.write_request(0, ground.view())).wait().value();
  engine_->submit(file.write_request(4096, middle.view())).wait().value();
  engine_->submit(file.read_request(4096, in.view())).wait().value();
  EXPECT_TRUE(in.holds(2));
  for (const std::uint64_t at : {0, 8192}) {
    engine_->submit(file.read_request(at, in.view())).wait().value();
    EXPECT_EQ(in.data()[0], ground.data()[at]);
    EXPECT_EQ(in.data()[4095], ground.data()[at + 4095]);
  }
}

TEST_P(IoEngineSuite, TellsTheSinkTheBytesMoved) {
  class Sink final : public IoSink {
   public:
    void on_start(const IoRequest&) noexcept override { ++n_started; }
    std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
      moved_bytes = outcome.ok() ? outcome.moved_bytes : 0;
      const auto kept = told;  // the test may be over before complete returns
      kept->complete({});
      return std::nullopt;
    }
    int n_started = 0;
    std::uint64_t moved_bytes = 0;
    std::shared_ptr<HostEventState> told = std::make_shared<HostEventState>();
  } sink;
  const DirectFile file = new_file();
  const TestBuffer out(3 * kMiB, 1);
  engine_->start(file.write_request(0, out.view()), sink);
  sink.told->wait().value();
  EXPECT_EQ(sink.moved_bytes, 3 * kMiB);
  EXPECT_EQ(sink.n_started, 1);
}

/// A sink that writes `n` pages one after the other, filling each when it starts.
class PageChain final : public IoSink {
 public:
  PageChain(const DirectFile& file, std::uint64_t first, std::uint64_t n) : file_(file), first_(first), n_(n) {}
  IoRequest request() const { return file_.write_request((first_ + n_done_) * 4096, page_.view()); }
  void on_start(const IoRequest& request) noexcept override {
    EXPECT_EQ(request.offset_bytes, (first_ + n_done_) * 4096);
    page_.fill(first_ + n_done_);
  }
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    EXPECT_EQ(outcome.error_number, 0);
    EXPECT_EQ(outcome.moved_bytes, 4096u);
    if (++n_done_ < n_) return request();
    const auto kept = told;
    kept->complete({});
    return std::nullopt;
  }
  std::shared_ptr<HostEventState> told = std::make_shared<HostEventState>();

 private:
  const DirectFile& file_;
  const std::uint64_t first_, n_;
  std::uint64_t n_done_ = 0;
  TestBuffer page_{4096};
};

TEST_P(IoEngineSuite, ChainsRunSideBySideInTheirPlaces) {
  constexpr std::uint64_t kNChains = 130, kNEach = 7;  // more than an engine has places
  const DirectFile file = new_file();
  std::vector<std::unique_ptr<PageChain>> chains;
  for (std::uint64_t i = 0; i < kNChains; ++i) {
    chains.push_back(std::make_unique<PageChain>(file, i * kNEach, kNEach));
    engine_->start(chains.back()->request(), *chains.back());
  }
  for (const auto& chain : chains) chain->told->wait().value();
  const TestBuffer in(4096);
  for (std::uint64_t page = 0; page < kNChains * kNEach; ++page) {
    engine_->submit(file.read_request(page * 4096, in.view())).wait().value();
    ASSERT_TRUE(in.holds(page)) << "page " << page;
  }
}

TEST_P(IoEngineSuite, ADeadlineThatHasPassedEndsARequestUnstarted) {
  const DirectFile file = new_file();
  const TestBuffer out(4096, 1);
  IoRequest late = file.write_request(0, out.view());
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto outcome = engine_->submit(late).wait();
  if (outcome.ok()) return;  // it may have ended before the engine read the clock
  EXPECT_EQ(outcome.error().kind, ErrorKind::io);
  EXPECT_NE(outcome.error().message.find("Connection timed out; the drive is slow or hangs"), std::string::npos)
      << outcome.error().message;
}

TEST_P(IoEngineSuite, ADeadlineFarAwayDoesNotMatter) {
  const DirectFile file = new_file();
  const TestBuffer out(4096, 1);
  IoRequest request = file.write_request(0, out.view());
  request.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_TRUE(engine_->submit(request).wait().ok());
}

/// A read from a pipe that no process writes to: the kernel has it and cannot end it.
class PipeRead final : public IoSink {
 public:
  PipeRead() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    out_ = UniqueFd(ends[0]);
    in_ = UniqueFd(ends[1]);
  }
  IoRequest request(IoDeadline deadline = kNoDeadline) const {
    return {IoOp::read, out_.get(), "/pipe", 0, page_.view(), deadline};
  }
  void on_start(const IoRequest&) noexcept override { started->complete({}); }
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    error_number = outcome.error_number;
    const auto kept = told;
    kept->complete({});
    return std::nullopt;
  }
  std::shared_ptr<HostEventState> started = std::make_shared<HostEventState>();
  std::shared_ptr<HostEventState> told = std::make_shared<HostEventState>();
  int error_number = 0;

 private:
  UniqueFd out_, in_;
  TestBuffer page_{4096};
};

TEST_P(IoEngineSuite, WhatTheKernelHasIsCalledBackWhereItCanBe) {
  if (engine_->name() != "io_uring") GTEST_SKIP() << "a call that blocks cannot be called back";
  PipeRead cancelled, late;
  engine_->start(cancelled.request(), cancelled);
  engine_->start(late.request(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)), late);
  cancelled.started->wait().value();
  engine_->cancel(cancelled);
  cancelled.told->wait().value();
  EXPECT_EQ(cancelled.error_number, ECANCELED);
  late.told->wait().value();
  EXPECT_EQ(late.error_number, ETIMEDOUT);
}

TEST_P(IoEngineSuite, CancellingWhatHasEndedDoesNothing) {
  const DirectFile file = new_file();
  PageChain chain(file, 0, 1);
  engine_->start(chain.request(), chain);
  chain.told->wait().value();
  engine_->cancel(chain);
  const TestBuffer in(4096);
  EXPECT_TRUE(engine_->submit(file.read_request(0, in.view())).wait().ok());
}

TEST_P(IoEngineSuite, RegisteredFilesAndBuffersMoveTheSameBytes) {
  const DirectFile file = new_file(), other = new_file();
  const TestBuffer out(4 * kMiB, 1), in(4 * kMiB);
  engine_->register_file(file.fd());
  const auto taken_bytes = engine_->register_buffer(out.view());
  EXPECT_LE(taken_bytes, 4 * kMiB);
  engine_->register_buffer(in.view());
  for (std::uint64_t at = 0; at < 4 * kMiB; at += 64 * kKiB) {
    engine_->submit(file.write_request(at, out.view().part(at, 64 * kKiB))).wait().value();
    engine_->submit(other.write_request(at, out.view().part(at, 4096))).wait().value();
  }
  engine_->submit(file.read_request(0, in.view())).wait().value();
  EXPECT_TRUE(in.holds(1));
  engine_->unregister_buffer(in.view());
  engine_->unregister_file(file.fd());
  in.fill(2);
  engine_->submit(file.read_request(0, in.view())).wait().value();
  EXPECT_TRUE(in.holds(1));
  engine_->unregister_buffer(out.view());
}

TEST_P(IoEngineSuite, SyncsAfterWrites) {
  const DirectFile file = new_file();
  const TestBuffer out(4096, 1);
  engine_->submit(file.write_request(0, out.view())).wait().value();
  EXPECT_TRUE(engine_->submit(file.sync_request()).wait().ok());
}

TEST_P(IoEngineSuite, NoBytesAreNoWork) {
  const DirectFile file = new_file();
  EXPECT_TRUE(engine_->submit(file.write_request(0, {})).wait().ok());
  EXPECT_TRUE(engine_->submit(file.read_request(1 << 20, {})).wait().ok());
}

TEST_P(IoEngineSuite, AReadBeyondTheEndIsAnErrorThatSaysHowFarItCame) {
  const DirectFile file = new_file();
  const TestBuffer out(4096, 1), in(8192);
  engine_->submit(file.write_request(0, out.view())).wait().value();
  const auto outcome = engine_->submit(file.read_request(0, in.view())).wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::io);
  EXPECT_NE(outcome.error().message.find("read of 8.00 KiB (8192 bytes) at offset 0 of " + file.path()),
            std::string::npos)
      << outcome.error().message;
  EXPECT_NE(outcome.error().message.find("after 4096 bytes: the file ends there"), std::string::npos)
      << outcome.error().message;
}

TEST_P(IoEngineSuite, AReadThatTheEndCutsInsideASectorIsTheSameError) {
  const std::string path = folder_.path() + "/odd";
  const DirectFile file = DirectFile::open(path, DirectFile::Mode::write).value();
  const TestBuffer in(8192);
  ASSERT_EQ(truncate(path.c_str(), 4196), 0);
  const auto outcome = engine_->submit(file.read_request(0, in.view())).wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().message.find("stopped after 4196 bytes: the file ends there"), std::string::npos)
      << outcome.error().message;
}

TEST_P(IoEngineSuite, AFullDeviceIsAnErrorThatSaysWhatToDo) {
  const DirectFile file = DirectFile::open("/dev/full", DirectFile::Mode::write).value();
  const TestBuffer out(8192, 1);
  const auto outcome = engine_->submit(file.write_request(4096, out.view())).wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::io);
  EXPECT_EQ(outcome.error().message,
            "write of 8.00 KiB (8192 bytes) at offset 4096 of /dev/full failed: No space left on device; free space "
            "there or name a "
            "folder on another drive with `nvme`");
  EXPECT_EQ(outcome.error().option, "nvme");
}

TEST_P(IoEngineSuite, ABadDescriptorFailsThatRequestAlone) {
  const DirectFile file = new_file();
  const TestBuffer out(4096, 1);
  const Event bad = engine_->submit({IoOp::write, -1, "/nowhere", 0, out.view(), kNoDeadline});
  const Event good = engine_->submit(file.write_request(0, out.view()));
  const auto outcome = bad.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.error().message.find("/nowhere failed: Bad file descriptor"), std::string::npos)
      << outcome.error().message;
  EXPECT_TRUE(good.wait().ok());
}

TEST_P(IoEngineSuite, MoreRequestsThanAnyQueueHoldAllComplete) {
  constexpr std::uint64_t kN = 1000;  // an engine has 128 places
  const DirectFile file = new_file();
  const TestBuffer out(kN * 4096, 7), in(kN * 4096);
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < kN; ++i)
    events.push_back(engine_->submit(file.write_request(i * 4096, out.view().part(i * 4096, 4096))));
  for (const auto& event : events) event.wait().value();
  events.clear();
  for (std::uint64_t i = 0; i < kN; ++i)
    events.push_back(engine_->submit(file.read_request(i * 4096, in.view().part(i * 4096, 4096))));
  for (const auto& event : events) event.wait().value();
  EXPECT_TRUE(in.holds(7));
}

TEST_P(IoEngineSuite, ManyThreadsSubmitAtOnce) {
  constexpr std::uint64_t kNThreads = 4, kNEach = 200;
  const DirectFile file = new_file();
  const TestBuffer out(kNThreads * kNEach * 4096, 3), in(out.view().n_bytes);
  std::atomic<int> n_failed{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kNThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t * kNEach; i < (t + 1) * kNEach; ++i)
        if (!engine_->submit(file.write_request(i * 4096, out.view().part(i * 4096, 4096))).wait().ok()) ++n_failed;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_failed, 0);
  engine_->submit(file.read_request(0, in.view())).wait().value();
  EXPECT_TRUE(in.holds(3));
}

TEST_P(IoEngineSuite, GoingAwayFinishesWhatWasSubmitted) {
  const DirectFile file = new_file();
  const TestBuffer out(256 * 4096, 5), in(256 * 4096);
  std::vector<Event> events;
  for (std::uint64_t i = 0; i < 256; ++i)
    events.push_back(engine_->submit(file.write_request(i * 4096, out.view().part(i * 4096, 4096))));
  engine_.reset();
  for (const auto& event : events) {
    ASSERT_TRUE(event.ready());
    EXPECT_TRUE(event.wait().ok());
  }
  ASSERT_EQ(pread(file.fd(), in.data(), 256 * 4096, 0), 256 * 4096);
  EXPECT_TRUE(in.holds(5));
}

TEST_P(IoEngineSuite, WritesMoreThanOneCallCanMove) {
  if (kThreadSanitizer && engine_->name() != "io_uring")
    GTEST_SKIP() << "ThreadSanitizer walks over every byte of a call: a minute";
  const EndlessBuffer out(130);  // more than 2 GiB; a single call moves at most 2 147 479 552 bytes
  const DirectFile sink = DirectFile::open("/dev/null", DirectFile::Mode::write).value();
  EXPECT_TRUE(engine_->submit(sink.write_request(0, out.view())).wait().ok());
}

TEST_P(IoEngineSuite, ReadsMoreThanOneCallCanMove) {
  if (kThreadSanitizer && engine_->name() != "io_uring")
    GTEST_SKIP() << "ThreadSanitizer walks over every byte of a call: a minute";
  const EndlessBuffer in(130);
  const DirectFile file = new_file();
  const std::uint64_t last_page = in.view().n_bytes - 4096;
  const TestBuffer mark(4096, 9);
  ASSERT_EQ(ftruncate(file.fd(), static_cast<off_t>(in.view().n_bytes)), 0);
  engine_->submit(file.write_request(last_page, mark.view())).wait().value();
  engine_->submit(file.read_request(0, in.view())).wait().value();
  EXPECT_EQ(std::memcmp(in.view().data + last_page, mark.data(), 4096), 0);
}

TEST_P(IoEngineSuite, OffsetsBeyondFourGiBAreKept) {
  const DirectFile file = new_file();
  const TestBuffer low(4096, 1), high(4096, 2), in(4096);
  const std::uint64_t at = 5 * kGiB;  // sparse; cut to 32 bits it would be 1 GiB
  engine_->submit(file.write_request(kGiB, low.view())).wait().value();
  engine_->submit(file.write_request(at, high.view())).wait().value();
  engine_->submit(file.read_request(at, in.view())).wait().value();
  EXPECT_TRUE(in.holds(2));
  engine_->submit(file.read_request(kGiB, in.view())).wait().value();
  EXPECT_TRUE(in.holds(1));
}

}  // namespace castor::test
