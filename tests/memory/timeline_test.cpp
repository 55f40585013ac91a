// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/timeline.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include <castor/memory/result.h>

namespace castor {
namespace {

/// A clock that only a test moves.
struct ManualClock {
  std::atomic<std::uint64_t> t_ns{1000};
  Clock clock() {
    return [this] { return t_ns.load(); };
  }
};

TEST(Timeline, KeepsSpansInTheOrderOfRecording) {
  Timeline timeline;
  timeline.record({Lane::h2d, 12, 100, 250, 4096});
  timeline.record({Lane::compute, 3, 50, 300, 0});
  const auto spans = timeline.spans();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].lane, Lane::h2d);
  EXPECT_EQ(spans[0].id, 12u);
  EXPECT_EQ(spans[0].start_ns, 100u);
  EXPECT_EQ(spans[0].end_ns, 250u);
  EXPECT_EQ(spans[0].n_bytes, 4096u);
  EXPECT_EQ(spans[1].lane, Lane::compute);
}

TEST(Timeline, TotalsSurviveTheRing) {
  Timeline timeline({4, 2});
  for (std::uint32_t k = 0; k < 10; ++k) timeline.record({Lane::d2h, k, k * 100, k * 100 + 30, 7});
  const auto spans = timeline.spans();
  ASSERT_EQ(spans.size(), 4u);
  for (std::uint32_t k = 0; k < 4; ++k) EXPECT_EQ(spans[k].id, 6 + k) << "the four youngest, oldest first";
  EXPECT_EQ(timeline.n_dropped_spans(), 6u);
  EXPECT_EQ(timeline.n_bytes(Lane::d2h), 70u);
  EXPECT_DOUBLE_EQ(timeline.seconds(Lane::d2h), 300e-9);
  EXPECT_EQ(timeline.n_bytes(Lane::h2d), 0u);
  EXPECT_EQ(timeline.seconds(Lane::h2d), 0.0);
}

TEST(Timeline, AFullRingHasDroppedNothingYet) {
  Timeline timeline({3, 3});
  for (std::uint32_t k = 0; k < 3; ++k) timeline.record({Lane::wait, k, 0, 0, 0});
  EXPECT_EQ(timeline.n_dropped_spans(), 0u);
  EXPECT_EQ(timeline.spans().front().id, 0u);
  timeline.record({Lane::wait, 3, 0, 0, 0});
  EXPECT_EQ(timeline.n_dropped_spans(), 1u);
  EXPECT_EQ(timeline.spans().front().id, 1u);
}

TEST(Timeline, SamplesCarryTheTimeAndEveryTier) {
  ManualClock hands;
  Timeline timeline({4, 2}, hands.clock());
  timeline.sample({1, 2, 3});
  hands.t_ns = 2000;
  timeline.sample({4, 5, 6});
  hands.t_ns = 3000;
  timeline.sample({7, 8, 9});
  const auto samples = timeline.samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].t_ns, 2000u);
  EXPECT_EQ(samples[1].t_ns, 3000u);
  EXPECT_EQ(samples[1].used_bytes[index(Tier::host)], 8u);
  EXPECT_EQ(timeline.n_dropped_samples(), 1u);
}

TEST(Timeline, KnowsWhenTheLastStepsEnded) {
  ManualClock hands;
  Timeline timeline({1, 1, 2}, hands.clock());
  EXPECT_TRUE(timeline.step_ends_ns().empty());
  for (const std::uint64_t t_ns : {1500, 2500, 3500}) hands.t_ns = t_ns, timeline.end_step();
  EXPECT_EQ(timeline.step_ends_ns(), (std::vector<std::uint64_t>{2500, 3500}));
}

TEST(Timeline, RefusesASpanThatEndsBeforeItStarts) {
  Timeline timeline;
  EXPECT_THROW(timeline.record({Lane::h2d, 0, 10, 9, 0}), ContractViolation);
  EXPECT_TRUE(timeline.spans().empty());
}

TEST(Timeline, RefusesToBeEmpty) {
  EXPECT_THROW(Timeline({0, 1}), ContractViolation);
  EXPECT_THROW(Timeline({1, 0}), ContractViolation);
  EXPECT_THROW(Timeline({1, 1, 0}), ContractViolation);
}

TEST(Timeline, ThreadsLoseNothing) {
  Timeline timeline({64, 1});
  const auto work = [&](Lane lane) {
    for (std::uint32_t k = 0; k < 5000; ++k) timeline.record({lane, k, k, k + 2, 3});
  };
  std::thread up(work, Lane::h2d), down(work, Lane::d2h), both(work, Lane::h2d);
  (void)timeline.spans();
  up.join();
  down.join();
  both.join();
  EXPECT_EQ(timeline.n_bytes(Lane::h2d), 30'000u);
  EXPECT_EQ(timeline.n_bytes(Lane::d2h), 15'000u);
  EXPECT_DOUBLE_EQ(timeline.seconds(Lane::h2d), 20'000e-9);
  EXPECT_EQ(timeline.n_dropped_spans(), 15'000u - 64u);
}

TEST(Span, MeasuresItsOwnLife) {
  ManualClock hands;
  Timeline timeline({4, 4}, hands.clock());
  {
    Span span(&timeline, Lane::nvme_read, 5, 100, Phase::update);
    hands.t_ns = 1750;
    span.add_bytes(28);
  }
  const auto spans = timeline.spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].lane, Lane::nvme_read);
  EXPECT_EQ(spans[0].id, 5u);
  EXPECT_EQ(spans[0].start_ns, 1000u);
  EXPECT_EQ(spans[0].end_ns, 1750u);
  EXPECT_EQ(spans[0].n_bytes, 128u);
  EXPECT_EQ(spans[0].phase, Phase::update);
}

TEST(Span, OfNoTimelineDoesNothing) { Span span(nullptr, Lane::wait, 0); }

TEST(SteadyClock, NeverRunsBackwards) {
  auto last_ns = steady_now_ns();
  for (int k = 0; k < 1000; ++k) {
    const auto now_ns = steady_now_ns();
    ASSERT_GE(now_ns, last_ns);
    last_ns = now_ns;
  }
}

}  // namespace
}  // namespace castor
