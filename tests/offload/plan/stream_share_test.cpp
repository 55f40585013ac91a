// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/stream_share.h>

#include <gtest/gtest.h>

#include <array>

namespace castor {
namespace {

// 3 s of updates, of which a streamed parameter leaves 0.6; 2 s in each direction for all states.
constexpr UpdateLoad kBoundByTheHost = {3, 1, 0.5, 0.5, 2, 2};

TEST(StreamShare, LetsHostAndBusEndTogether) {
  // 3 - 3 * 0.4 s = 0.5 + 2 s at s = 2.5 / 3.2
  EXPECT_NEAR(stream_share(kBoundByTheHost), 2.5 / 3.2, 1.0 / 64);
  UpdateLoad load = kBoundByTheHost;
  load.stream_d2h_s = 4;  // the slower direction decides: s = 2.5 / 5.2
  EXPECT_NEAR(stream_share(load), 2.5 / 5.2, 1.0 / 64);
}

TEST(StreamShare, IsNoMoreThanHidesTheUpdate) {
  UpdateLoad load = kBoundByTheHost;
  load.window_s = 2.6;  // 3 - 1.2 s = 2.6
  EXPECT_NEAR(stream_share(load), 0.4 / 1.2, 1.0 / 64);
}

TEST(StreamShare, IsNothingWhereLittleIsGained) {
  UpdateLoad load = kBoundByTheHost;
  load.window_s = 2.75;
  EXPECT_EQ(stream_share(load), 0);
  load.window_s = 4;
  EXPECT_EQ(stream_share(load), 0) << "the update is hidden as it is";
  load = kBoundByTheHost;
  load.h2d_s = 3;
  EXPECT_EQ(stream_share(load), 0) << "the bus has no time left";
  EXPECT_EQ(stream_share({}), 0);
}

TEST(StreamShare, IsThatWhichUpdatesFirstWhereTheTeamIsBusyForHalfOfAStep) {
  UpdateLoad load = kBoundByTheHost;
  load.window_s = 4;
  EXPECT_NEAR(stream_share(load, 4), 2.5 / 3.2, 1.0 / 64)
      << "3 - 3 * 0.4 s = 0.5 + 2 s, though other work takes longer";
  EXPECT_NEAR(stream_share(load, 6), 2.5 / 3.2, 1.0 / 64);
  EXPECT_EQ(stream_share(load, 6.1), 0) << "the team is busy for less than half of it";
  load.h2d_s = 2.6;  // 3 - 1.2 s = 2.6 + 2 s at s = 0.125, where the update ends 0.15 s sooner
  EXPECT_EQ(stream_share(load, 4), 0) << "less than a tenth is gained";
  load.h2d_s = 3;
  EXPECT_EQ(stream_share(load, 4), 0) << "the bus has no time left";
}

TEST(StreamShare, WaitsForTheNormWhereTheHostDoesNot) {
  UpdateLoad load = kBoundByTheHost;
  load.streams_from_s = 2;  // 3 - 1.2 s = 2 + 2 s
  EXPECT_NEAR(stream_share(load), 1 / 3.2, 1.0 / 64);
  load.streams_from_s = 2.7;
  EXPECT_EQ(stream_share(load), 0) << "too late for more than a tenth";
}

TEST(StreamShare, KnowsWhatUpdatesCanHideBehind) {
  AccessTrace trace;
  const std::array needs = {Need{ChunkId{0}, Tier::device, Access::read}};
  trace.add({MomentKind::forward, 0}, needs);
  trace.add({MomentKind::backward, 1}, needs);
  trace.add({MomentKind::forward, 0}, needs);  // recomputed
  StepEstimate estimate;
  estimate.beside_s = 7;
  estimate.link_s = {0.4, 0.2, 0, 0};
  const LinkCosts costs = {1e-9, 2e-9, 0, 0, 0};  // for 1 GB alone; up beside the update 1.4 of it
  const UpdateLoad free = update_load(trace, {{1, 1.5, 0.5}, {0, 0, 0}}, estimate, costs, 1'000'000'000);
  EXPECT_EQ(free.host_s, 7);
  EXPECT_EQ(free.window_s, 3);
  EXPECT_EQ(free.h2d_s, 0.4);
  EXPECT_EQ(free.d2h_s, 0.2);
  EXPECT_DOUBLE_EQ(free.stream_h2d_s, 1.4);
  EXPECT_DOUBLE_EQ(free.stream_d2h_s, 2);
  trace.add({MomentKind::norm, 0}, {});
  estimate.link_s[kNvmeRead] = 0.75;
  const UpdateLoad clipped = update_load(trace, {{1, 1.5, 0.5, 0}, {0, 0, 0, 0}}, estimate, costs, 1'000'000'000);
  EXPECT_EQ(clipped.window_s, 1);
  EXPECT_EQ(clipped.h2d_s, 0.2);
  EXPECT_EQ(clipped.streams_from_s, 0);
  estimate.link_s[kNvmeWrite] = 1.5;
  EXPECT_EQ(update_load(trace, {{1, 1.5, 0.5, 0}, {0, 0, 0, 0}}, estimate, costs, 0).window_s, 1.5)
      << "the drive takes longer";
}

TEST(StreamShare, KnowsThatSpeculativeUpdatesDoNotWaitForTheNorm) {
  AccessTrace trace;
  const std::array needs = {Need{ChunkId{0}, Tier::device, Access::read}};
  const std::array states = {Need{ChunkId{1}, Tier::host, Access::update}};
  trace.add({MomentKind::forward, 0}, needs);
  trace.add({MomentKind::backward, 0}, needs);
  trace.add({MomentKind::update, 0, true}, states);
  trace.add({MomentKind::norm, 0}, {});
  StepEstimate estimate;
  estimate.link_s = {0.4, 0.2, 0, 0};
  const UpdateLoad load = update_load(trace, {{1, 1.5, 3, 0}, {0, 0, 0, 0}}, estimate, {1e-9, 1e-9, 0, 0, 0}, 0);
  EXPECT_EQ(load.window_s, 2.5);
  EXPECT_EQ(load.h2d_s, 0.4);
  EXPECT_EQ(load.streams_from_s, 1.5);
}

}  // namespace
}  // namespace castor
