// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/memory/buffer.h>
#include <castor/memory/bytes.h>
#include <castor/memory/clock.h>
#include <castor/memory/device.h>

namespace castor::conformance {

/// The contract of Stream and Event, run over every implementation:
///
///   INSTANTIATE_TYPED_TEST_SUITE_P(Host, StreamSuite, HostStreamSubject);
///
/// A Subject is default-constructible and has
///   std::string missing()                  why this machine cannot run it, or empty; nothing else is called then
///   Device& device()                       whose memory the copies use
///   std::unique_ptr<Stream> make_stream()  a new stream of the kind under test
template <typename Subject>
class StreamSuite : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 3 * kMiB + 17;

  void SetUp() override {
    if (const auto reason = subject_.missing(); !reason.empty()) GTEST_SKIP() << reason;
    stream_ = subject_.make_stream();
    source_ = allocate(subject_.device().host_memory());
    there_ = allocate(subject_.device().device_memory());
    back_ = allocate(subject_.device().host_memory());
    write(source_, 1);
    write(back_, 0);
  }
  void TearDown() override {
    if (stream_) (void)stream_->synchronize();  // before the buffers are destroyed
  }

  static Buffer allocate(MemoryResource& resource) { return std::move(Buffer::allocate(resource, kBytes)).value(); }
  /// Bytes that repeat with no power of two, so that a shifted copy shows.
  static std::uint8_t byte(std::uint64_t k, int seed) { return static_cast<std::uint8_t>(k % 251 + 7 * seed); }
  static void write(const Buffer& buffer, int seed) {
    for (std::uint64_t k = 0; k < kBytes; ++k) buffer.data()[k] = std::byte{byte(k, seed)};
  }
  static bool holds(const Buffer& buffer, int seed) {
    for (std::uint64_t k = 0; k < kBytes; ++k)
      if (buffer.data()[k] != std::byte{byte(k, seed)}) return false;
    return true;
  }
  static Event failed_event(const char* message) {
    auto state = std::make_shared<HostEventState>();
    state->complete(Error{ErrorKind::io, message});
    return Event(std::move(state));
  }

  Subject subject_;
  Buffer source_, there_, back_;
  std::unique_ptr<Stream> stream_;
};

TYPED_TEST_SUITE_P(StreamSuite);

TYPED_TEST_P(StreamSuite, CopiesRunInTheirOrder) {
  this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  const auto arrived = this->stream_->copy(this->back_.data(), this->there_.data(), this->kBytes);
  ASSERT_TRUE(arrived.wait().ok());
  EXPECT_TRUE(arrived.ready());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, RecordCoversEverythingQueuedBefore) {
  for (int round = 0; round < 10; ++round) this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  const auto early = this->stream_->copy(this->back_.data(), this->there_.data(), this->kBytes);
  const auto all = this->stream_->record();
  ASSERT_TRUE(all.wait().ok());
  EXPECT_TRUE(early.ready());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, WaitOrdersOneStreamAfterAnother) {
  const auto other = this->subject_.make_stream();
  for (int round = 0; round < 10; ++round) this->stream_->copy(this->back_.data(), this->source_.data(), this->kBytes);
  const auto up = this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  ASSERT_TRUE(other->wait(up).ok());
  ASSERT_TRUE(other->copy(this->back_.data(), this->there_.data(), this->kBytes).wait().ok());
  EXPECT_TRUE(up.ready());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, WaitsForAHostThread) {
  auto state = std::make_shared<HostEventState>();
  std::thread reader([&] {
    this->write(this->source_, 2);
    state->complete({});
  });
  (void)this->stream_->wait(Event(state));
  this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  const auto outcome = this->stream_->copy(this->back_.data(), this->there_.data(), this->kBytes).wait();
  reader.join();
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(this->holds(this->back_, 2));
}

TYPED_TEST_P(StreamSuite, AnEventMadeByDefaultIsReached) {
  EXPECT_TRUE(Event().ready());
  EXPECT_TRUE(Event().wait().ok());
  (void)this->stream_->wait(Event());
  EXPECT_TRUE(this->stream_->record().wait().ok());
}

TYPED_TEST_P(StreamSuite, AFailureStopsTheStreamUntilItIsReported) {
  (void)this->stream_->wait(this->failed_event("drive gone"));
  const auto skipped = this->stream_->copy(this->back_.data(), this->source_.data(), this->kBytes).wait();
  ASSERT_FALSE(skipped.ok());
  EXPECT_EQ(skipped.error().message, "drive gone");
  EXPECT_EQ(this->stream_->record().wait().error().message, "drive gone");
  EXPECT_TRUE(this->holds(this->back_, 0)) << "a copy ran after the failure";
  EXPECT_EQ(this->stream_->synchronize().error().kind, ErrorKind::io);

  EXPECT_TRUE(this->stream_->synchronize().ok()) << "a failure is reported once";
  ASSERT_TRUE(this->stream_->copy(this->back_.data(), this->source_.data(), this->kBytes).wait().ok());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, AFailureTravelsThroughEventsOfOtherStreams) {
  const auto other = this->subject_.make_stream();
  (void)this->stream_->wait(this->failed_event("drive gone"));
  (void)other->wait(this->stream_->record());  // an inline stream reports here the failure that the copy reports below
  EXPECT_EQ(other->copy(this->back_.data(), this->source_.data(), this->kBytes).wait().error().message, "drive gone");
  EXPECT_TRUE(this->holds(this->back_, 0));
  EXPECT_FALSE(other->synchronize().ok());
}

TYPED_TEST_P(StreamSuite, TheFirstFailureCounts) {
  (void)this->stream_->wait(this->failed_event("first"));
  (void)this->stream_->wait(this->failed_event("second"));
  EXPECT_EQ(this->stream_->synchronize().error().message, "first");
}

TYPED_TEST_P(StreamSuite, EarlierWorkIsUnharmedByALaterFailure) {
  const auto good = this->stream_->copy(this->back_.data(), this->source_.data(), this->kBytes);
  (void)this->stream_->wait(this->failed_event("late"));
  EXPECT_TRUE(good.wait().ok());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, SynchronizeWaitsForEverything) {
  for (int round = 0; round < 10; ++round) this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  this->stream_->copy(this->back_.data(), this->there_.data(), this->kBytes);
  ASSERT_TRUE(this->stream_->synchronize().ok());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

TYPED_TEST_P(StreamSuite, ZeroBytesAreACopyLikeAnyOther) {
  EXPECT_TRUE(this->stream_->copy(this->back_.data(), this->source_.data(), 0).wait().ok());
  EXPECT_TRUE(this->holds(this->back_, 0));
}

TYPED_TEST_P(StreamSuite, TimesSpanTheWorkQueuedBetweenThem) {
  std::vector<std::unique_ptr<StreamTime>> times;
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5; ++round) {
    times.push_back(this->stream_->time());
    this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
  }
  times.push_back(this->stream_->time());
  const double whole_s = times.back()->seconds_since(*times.front()).value();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  double sum_s = 0;
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double copy_s = times[i]->seconds_since(*times[i - 1]).value();
    EXPECT_GT(copy_s, this->kBytes / 10e12) << "no memory copies 10 TB a second";
    sum_s += copy_s;
  }
  EXPECT_NEAR(sum_s, whole_s, 5e-6);
  EXPECT_LE(whole_s, passed.count() + 1e-5);
}

TYPED_TEST_P(StreamSuite, EventsWereReachedInTheirOrderBetweenBeingQueuedAndBeingSeen) {
  double least_error_s = 1;  // of a round in which no thread was held up
  for (int round = 0; round < 5; ++round) {
    const std::uint64_t queued_ns = steady_now_ns();
    const auto first = this->stream_->copy(this->there_.data(), this->source_.data(), this->kBytes);
    const auto begun = this->stream_->time();
    const auto second = this->stream_->copy(this->back_.data(), this->there_.data(), this->kBytes);
    const auto ended = this->stream_->time();
    ASSERT_TRUE(second.wait().ok());
    const double copy_s = ended->seconds_since(*begun).value();
    const std::uint64_t seen_ns = steady_now_ns();
    if (!second.reached_ns()) GTEST_SKIP() << "these do not know when";
    EXPECT_LE(queued_ns, *first.reached_ns());
    EXPECT_LE(*first.reached_ns(), *second.reached_ns());
    EXPECT_LE(*second.reached_ns(), seen_ns);
    const double between_s = static_cast<double>(*second.reached_ns() - *first.reached_ns()) * 1e-9;
    least_error_s = std::min(least_error_s, std::abs(between_s - copy_s));
  }
  EXPECT_LT(least_error_s, 0.01) << "the device's own clock says otherwise";
}

TYPED_TEST_P(StreamSuite, TimePassesInAStreamThatHasFailed) {
  const auto before = this->stream_->time();
  (void)this->stream_->wait(this->failed_event("drive gone"));
  EXPECT_GE(this->stream_->time()->seconds_since(*before).value(), 0);
  (void)this->stream_->synchronize();
}

TYPED_TEST_P(StreamSuite, EventsOutliveTheirStream) {
  const auto last = this->stream_->copy(this->back_.data(), this->source_.data(), this->kBytes);
  this->stream_.reset();
  EXPECT_TRUE(last.wait().ok());
  EXPECT_TRUE(this->holds(this->back_, 1));
}

REGISTER_TYPED_TEST_SUITE_P(StreamSuite, CopiesRunInTheirOrder, RecordCoversEverythingQueuedBefore,
                            WaitOrdersOneStreamAfterAnother, WaitsForAHostThread, AnEventMadeByDefaultIsReached,
                            AFailureStopsTheStreamUntilItIsReported, AFailureTravelsThroughEventsOfOtherStreams,
                            TheFirstFailureCounts, EarlierWorkIsUnharmedByALaterFailure, SynchronizeWaitsForEverything,
                            ZeroBytesAreACopyLikeAnyOther, TimesSpanTheWorkQueuedBetweenThem,
                            EventsWereReachedInTheirOrderBetweenBeingQueuedAndBeingSeen,
                            TimePassesInAStreamThatHasFailed, EventsOutliveTheirStream);

}  // namespace castor::conformance
