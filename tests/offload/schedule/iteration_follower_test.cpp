// SPDX-License-Identifier: Apache-2.0
#include "iteration_follower.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

namespace castor {
namespace {

using enum FollowState;
using enum FollowEvent;

TEST(FollowTable, OfEveryStateAndEvent) {
  for (const FollowState state : {fresh, rejoined, astray}) {
    EXPECT_EQ(next_state(state, followed), state) << "following changes nothing";
    EXPECT_EQ(next_state(state, strayed), astray);
    EXPECT_EQ(next_state(state, began_anew), rejoined);
    EXPECT_EQ(next_state(state, ended), fresh);
    EXPECT_EQ(next_state(state, broke_off), rejoined);
    EXPECT_EQ(next_state(state, expected), rejoined);
  }
}

constexpr Moment kForward0 = {MomentKind::forward, 0}, kForward1 = {MomentKind::forward, 1},
                 kBackward = {MomentKind::backward, 1}, kUpdate = {MomentKind::update, 0};

struct Followed {
  /// Runs moments that need a chunk each; returns for each how many were new in the recording.
  std::vector<std::uint64_t> run(std::initializer_list<Moment> moments) {
    std::vector<std::uint64_t> n_new;
    for (const Moment moment : moments) {
      const std::vector<Need> needs = {{ChunkId{moment.id}, Tier::host, Access::read}};
      n_new.push_back(follower.begin(moment, needs, nullptr));
      follower.start();
    }
    return n_new;
  }

  /// Ends the iteration; returns whether it followed the trace.
  bool end() {
    follower.end();
    return follower.repeated();
  }

  Timeline timeline;
  IterationFollower follower{timeline};
};

TEST(IterationFollower, TellsWhetherAnIterationWentAsTheOneBefore) {
  Followed f;
  (void)f.run({kForward0, kBackward, kUpdate});
  EXPECT_FALSE(f.follower.on_trace()) << "there is none yet";
  EXPECT_FALSE(f.end());
  (void)f.run({kForward0, kBackward, kUpdate});
  EXPECT_TRUE(f.follower.on_trace());
  EXPECT_TRUE(f.end());
  (void)f.run({kForward0, kForward1});
  EXPECT_FALSE(f.follower.on_trace());
  EXPECT_EQ(f.follower.next_use(ChunkId{0}, Tier::host), AccessTrace::kNever)
      << "nothing is known of an iteration that went astray";
  EXPECT_FALSE(f.end());
  EXPECT_EQ(f.follower.trace().n_moments(), 2u);
}

Moment unit(MomentKind kind, std::uint32_t micro_batch, std::uint32_t model_chunk = 0) {
  Moment moment = {kind, 0};
  moment.micro_batch = micro_batch, moment.model_chunk = model_chunk;
  return moment;
}

/// One forward and one backward pass in turns: the unit's next forward pass does not begin the iteration anew.
TEST(IterationFollower, MicroBatchesOfAPipelineAreMomentsOfTheirOwn) {
  const Moment f0 = unit(MomentKind::forward, 0), f1 = unit(MomentKind::forward, 1), f2 = unit(MomentKind::forward, 2),
               b0 = unit(MomentKind::backward, 0), b1 = unit(MomentKind::backward, 1),
               b2 = unit(MomentKind::backward, 2), other_part = unit(MomentKind::forward, 0, 1);
  Followed f;
  for (int i = 0; i < 2; ++i) {
    (void)f.run({f0, other_part, f1, b0, f2, b1, b2});
    EXPECT_EQ(f.end(), i > 0);
  }
  (void)f.run({f0, other_part, f1, b0, f2});
  EXPECT_TRUE(f.follower.on_trace());
  (void)f.run({b2});
  EXPECT_FALSE(f.follower.on_trace()) << "the trace has micro-batch 1 next";
  (void)f.run({f1});
  EXPECT_FALSE(f.follower.on_trace()) << "the trace begins with micro-batch 0";
  (void)f.run({other_part});
  EXPECT_FALSE(f.follower.on_trace()) << "the trace begins with the other part of the model";
  (void)f.run({f0});
  EXPECT_TRUE(f.follower.on_trace());
}

TEST(IterationFollower, AnIterationThatBeginsAnewIsOnTheTraceAgain) {
  Followed f;
  (void)f.run({kForward0, kForward1, kBackward});
  f.follower.end();
  (void)f.run({kForward0, kForward1});  // evaluation
  EXPECT_EQ(f.run({kForward0, kForward1, kBackward}), (std::vector<std::uint64_t>{1, 1, 1}));
  EXPECT_TRUE(f.follower.on_trace());
  EXPECT_TRUE(f.end());
}

TEST(IterationFollower, UpdatesThatABrokenIterationMadeArePassedOver) {
  Followed f;
  (void)f.run({kUpdate, kForward0, kBackward});
  f.follower.end();
  (void)f.run({kUpdate, kForward0});  // evaluation makes the update that waited for the chunk's use
  EXPECT_EQ(f.run({kForward0, kBackward}), (std::vector<std::uint64_t>{2, 1})) << "the update and the moment after it";
  EXPECT_TRUE(f.end());
}

TEST(IterationFollower, AStepWithoutItsUpdatesWasSkippedAndTheTraceStays) {
  Followed f;
  (void)f.run({kForward0, kBackward, kUpdate});
  f.follower.end();
  (void)f.run({kForward0, kBackward});
  EXPECT_TRUE(f.end());
  EXPECT_EQ(f.follower.trace().n_moments(), 3u);
}

TEST(IterationFollower, NextUsesCountFromTheMomentUnderWay) {
  Followed f;
  (void)f.run({kForward0, kForward1, kBackward});
  f.follower.end();
  (void)f.run({kForward0});
  EXPECT_EQ(f.follower.next_use(ChunkId{1}, Tier::host), 0u) << "the next moment";
  EXPECT_EQ(f.follower.next_use(ChunkId{0}, Tier::host), 2u) << "in the next iteration";
  EXPECT_EQ(f.follower.next_use(ChunkId{1}, Tier::device), AccessTrace::kNever);
}

}  // namespace
}  // namespace castor
