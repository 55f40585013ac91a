// SPDX-License-Identifier: Apache-2.0
#include "move_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>

namespace castor {
namespace {

/// An event that knows when it was reached.
class ReachedAt final : public EventState {
 public:
  explicit ReachedAt(std::uint64_t ns) : ns_(ns) {}
  bool ready() const override { return true; }
  Result<void> wait() const override { return {}; }
  std::optional<std::uint64_t> reached_ns() const override { return ns_; }

 private:
  const std::uint64_t ns_;
};

class MoveLogTest : public ::testing::Test {
 protected:
  Event start(Lane lane, Event done, std::uint64_t n_bytes = 1) {
    return log_.start(lane, ChunkId{}, n_bytes, [&] { return done; });
  }
  Event start_reached_at(Lane lane, std::uint64_t ns) { return start(lane, Event(std::make_shared<ReachedAt>(ns))); }

  std::uint64_t now_ns_ = 0;  // every reading of the clock moves it on
  Timeline timeline_{{}, [this] { return now_ns_ += 1000; }};
  MoveLog log_{timeline_};
};

TEST_F(MoveLogTest, TheBytesOfEachLinkCountFromTheStart) {
  const auto under_way = std::make_shared<HostEventState>();  // owners: this, and the log
  start(Lane::h2d, Event(under_way), 1);
  start(Lane::d2h, Event(), 2);
  start(Lane::nvme_read, Event(), 4);
  start(Lane::nvme_write, Event(), 8);
  start(Lane::nvme_write, Event(), 16);
  EXPECT_EQ(log_.moved().h2d, 1u);
  EXPECT_EQ(log_.moved().d2h, 2u);
  EXPECT_EQ(log_.moved().nvme_read, 4u);
  EXPECT_EQ(log_.moved().nvme_write, 24u);
  under_way->complete({});
}

TEST_F(MoveLogTest, AMoveIsInTheTimelineOnceItHasEnded) {
  const auto under_way = std::make_shared<HostEventState>();  // owners: this, and the log
  start(Lane::nvme_read, Event(under_way), 7);
  log_.record_ended();
  EXPECT_TRUE(timeline_.spans().empty());
  under_way->complete({});
  log_.record_ended();
  ASSERT_EQ(timeline_.spans().size(), 1u);
  EXPECT_EQ(timeline_.n_bytes(Lane::nvme_read), 7u);
  log_.record_ended();
  EXPECT_EQ(timeline_.spans().size(), 1u) << "recorded once";
}

// Started at 1000, 2000 and 3000 ns, recorded at 100000 ns.
TEST_F(MoveLogTest, CopiesAreRecordedAsTheyEndedAndOneAfterTheOther) {
  for (const std::uint64_t reached_ns : {5'000, 7'000, 900'000}) start_reached_at(Lane::d2h, reached_ns);
  now_ns_ = 97'000;
  log_.record_ended();
  const auto spans = timeline_.spans();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].start_ns, 1'000u);
  EXPECT_EQ(spans[0].end_ns, 5'000u);
  EXPECT_EQ(spans[1].start_ns, 5'000u);
  EXPECT_EQ(spans[1].end_ns, 7'000u);
  EXPECT_EQ(spans[2].end_ns, 100'000u) << "never later than it is noticed";
}

TEST_F(MoveLogTest, MovesOfADriveOverlap) {
  for (const std::uint64_t reached_ns : {5'000, 7'000}) start_reached_at(Lane::nvme_read, reached_ns);
  now_ns_ = 97'000;
  log_.record_ended();
  const auto spans = timeline_.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[1].start_ns, 2'000u);
}

TEST_F(MoveLogTest, ALaneThatIsNoLinkIsRefused) {
  EXPECT_THROW(start(Lane::compute, Event()), ContractViolation);
  log_.record_ended();
  EXPECT_TRUE(timeline_.spans().empty());
}

}  // namespace
}  // namespace castor
