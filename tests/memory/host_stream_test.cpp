// SPDX-License-Identifier: Apache-2.0
// Promises of a worker thread's stream beyond tests/conformance/stream_suite.h: it never blocks the thread that queues.
#include <gtest/gtest.h>

#include <utility>

#include <castor/memory/device.h>

namespace castor {
namespace {

class HostStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device();
  std::unique_ptr<Stream> stream_ = std::move(device_->make_stream()).value();
  std::shared_ptr<HostEventState> gate_ = std::make_shared<HostEventState>();
  int from_ = 1, to_ = 0;
};

TEST_F(HostStreamTest, QueuesBehindAnUnreachedEventWithoutBlocking) {
  (void)stream_->wait(Event(gate_));
  const auto copied = stream_->copy(&to_, &from_, sizeof to_);
  const auto recorded = stream_->record();
  EXPECT_FALSE(copied.ready());
  EXPECT_FALSE(recorded.ready());
  EXPECT_EQ(to_, 0);
  gate_->complete({});
  ASSERT_TRUE(recorded.wait().ok());
  EXPECT_EQ(to_, 1);
}

TEST_F(HostStreamTest, ReadsTheSourceWhenItsTurnComes) {
  (void)stream_->wait(Event(gate_));
  const auto copied = stream_->copy(&to_, &from_, sizeof to_);
  from_ = 7;
  gate_->complete({});
  ASSERT_TRUE(copied.wait().ok());
  EXPECT_EQ(to_, 7);
}

TEST_F(HostStreamTest, TheDestructorRunsWhatIsQueued) {
  (void)stream_->wait(Event(gate_));
  const auto copied = stream_->copy(&to_, &from_, sizeof to_);
  gate_->complete({});
  stream_.reset();
  EXPECT_TRUE(copied.ready());
  EXPECT_EQ(to_, 1);
}

TEST_F(HostStreamTest, AFailureThatComesLaterStopsWhatWasAlreadyQueued) {
  (void)stream_->wait(Event(gate_));
  const auto copied = stream_->copy(&to_, &from_, sizeof to_);
  gate_->complete(Error{ErrorKind::io, "read failed"});
  EXPECT_EQ(copied.wait().error().message, "read failed");
  EXPECT_EQ(to_, 0);
}

TEST_F(HostStreamTest, LetsGoOfAnEventOnceItHasWaited) {
  const std::weak_ptr<HostEventState> watched = gate_;
  (void)stream_->wait(Event(gate_));
  const auto after = stream_->record();
  std::exchange(gate_, nullptr)->complete({});
  ASSERT_TRUE(after.wait().ok());
  EXPECT_TRUE(watched.expired());
}

TEST_F(HostStreamTest, AFailedEventIsReportedByTheWorkAfterItAlone) {
  gate_->complete(Error{ErrorKind::io, "read failed"});
  EXPECT_TRUE(stream_->wait(Event(gate_)).ok()) << "the wait itself is only queued";
  EXPECT_EQ(stream_->record().wait().error().message, "read failed");
}

TEST_F(HostStreamTest, HasNoNativeHandle) { EXPECT_EQ(stream_->native_handle(), nullptr); }

TEST(InlineStream, RunsOnTheThreadThatQueues) {
  const auto device = make_cpu_device();
  const auto stream = device->wrap_compute_stream(nullptr);
  int from = 1, to = 0;
  EXPECT_TRUE(stream->copy(&to, &from, sizeof to).ready());
  EXPECT_EQ(to, 1);
}

TEST(InlineStream, ReportsOnTheSpotWhatItWaitedFor) {
  const auto device = make_cpu_device();
  const auto stream = device->wrap_compute_stream(nullptr);
  auto failed = std::make_shared<HostEventState>();
  failed->complete(Error{ErrorKind::io, "read failed"});
  EXPECT_EQ(stream->wait(Event(failed)).error().message, "read failed");
  EXPECT_TRUE(stream->wait(Event()).ok()) << "the outcome of this event, though the stream has stopped";
  EXPECT_FALSE(stream->record().wait().ok());
}

}  // namespace
}  // namespace castor
