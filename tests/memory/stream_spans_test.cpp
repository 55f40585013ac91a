// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/stream_spans.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace castor {
namespace {

/// A point that is reached when the test says so.
struct Point final : EventState {
  std::optional<std::uint64_t> at_ns;
  bool reached = false, knows = true;

  bool ready() const override { return reached; }
  Result<void> wait() const override { return {}; }
  std::optional<std::uint64_t> reached_ns() const override { return reached && knows ? at_ns : std::nullopt; }
};

/// A stream of nothing but points.
struct PointStream final : Stream {
  std::vector<std::shared_ptr<Point>> points;  // owners: the test, and events

  Event copy(void*, const void*, std::uint64_t) override { return record(); }
  Result<void> wait(const Event&) override { return {}; }
  Event record() override { return Event(points.emplace_back(std::make_shared<Point>())); }
  std::unique_ptr<StreamTime> time() override { return nullptr; }
  Result<void> synchronize() override { return {}; }

  void reach(std::size_t point, std::uint64_t at_ns, bool knows = true) {
    points.at(point)->reached = true;
    points[point]->at_ns = at_ns;
    points[point]->knows = knows;
  }
};

struct StreamSpansTest : ::testing::Test {
  std::uint64_t now_ns = 0;
  Timeline timeline{{}, [this] { return now_ns; }};
  PointStream stream;
  StreamSpans spans{timeline, stream};

  /// Queues the work of a span from `from_ns` to `to_ns`.
  void give(std::uint32_t id, std::uint64_t from_ns, std::uint64_t to_ns) {
    now_ns = from_ns;
    auto begun = spans.begin();
    now_ns = to_ns;
    spans.end(std::move(begun), {Lane::compute, id, 0, 0, 7, Phase::forward});
  }
};

TEST_F(StreamSpansTest, ASpanIsWhenTheStreamDidItAndEntersOnceItHas) {
  give(3, 10, 20);
  EXPECT_TRUE(timeline.spans().empty());
  stream.reach(0, 100);
  spans.settle();
  EXPECT_TRUE(timeline.spans().empty());
  stream.reach(1, 250);
  spans.settle();
  ASSERT_EQ(timeline.spans().size(), 1);
  const SpanRecord span = timeline.spans().front();
  EXPECT_EQ(span.start_ns, 100);
  EXPECT_EQ(span.end_ns, 250);
  EXPECT_EQ(span.id, 3);
  EXPECT_EQ(span.n_bytes, 7);
  EXPECT_EQ(span.phase, Phase::forward);
}

TEST_F(StreamSpansTest, WhereTheStreamDoesNotKnowItIsWhenTheThreadGaveIt) {
  give(3, 10, 20);
  stream.reach(0, 100, /*knows=*/false);
  stream.reach(1, 250, /*knows=*/false);
  spans.settle();
  EXPECT_EQ(timeline.spans().at(0).start_ns, 10);
  EXPECT_EQ(timeline.spans().at(0).end_ns, 20);
}

TEST_F(StreamSpansTest, OneThatHasNotEndedHoldsUpThoseAfterIt) {
  give(1, 10, 20);
  give(2, 30, 40);
  stream.reach(0, 100), stream.reach(2, 200), stream.reach(3, 300);
  spans.settle();
  EXPECT_TRUE(timeline.spans().empty());
  stream.reach(1, 200);
  give(3, 50, 60);
  EXPECT_EQ(timeline.spans().size(), 2) << "the next end looks as well";
}

TEST_F(StreamSpansTest, NoSpanEndsBeforeItsStart) {
  give(1, 10, 20);
  stream.reach(0, 100), stream.reach(1, 99);
  spans.settle();
  EXPECT_EQ(timeline.spans().at(0).end_ns, 100);
}

}  // namespace
}  // namespace castor
