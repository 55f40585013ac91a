// SPDX-License-Identifier: Apache-2.0
// The forecast of an iteration with streamed states against iterations that have them.
#include <castor/schedule/stream_forecast.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "../../support/seeds.h"
#include "regular_training.h"

namespace castor::testing {
namespace {

TEST(StreamForecast, IterationsGoAsForecastFromTheFirstOn) {
  for (std::uint64_t seed = 0; seed < test::n_seeds(40) && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto team = make_host_team(2).value();
    RegularTraining training(seed, *team);
    for (int i = 0; i < 3; ++i) training.step();
    const AccessTrace without = training.trace();
    for (int share = 0; share < 2; ++share) {  // the second share too is forecast from iterations without streams
      training.stream_a_third();
      const AccessTrace forecast = training.world().optimizer->forecast(without);
      training.world().scheduler.expect(forecast);
      EXPECT_NE(plan_of(training.world().scheduler), nullptr);
      EXPECT_TRUE(training.world().scheduler.bound()) << "of the forecast's times";
      for (int i = 0; i < 3; ++i) {
        training.step();
        EXPECT_TRUE(training.trace().same_accesses(forecast)) << "iteration " << i;
        EXPECT_TRUE(training.world().scheduler.plan() != nullptr) << "iteration " << i;
      }
    }
    training.world().expect_same_bits();
  }
}

TEST(StreamForecast, NoStreamsAreWhatWas) {
  const auto team = make_host_team(2).value();
  RegularTraining training(1, *team);
  for (int i = 0; i < 3; ++i) training.step();
  const AccessTrace& trace = training.trace();
  const AccessTrace forecast = with_streams(trace, {}, true);
  EXPECT_TRUE(forecast.same_accesses(trace));
  EXPECT_EQ(forecast.seconds().compute, trace.seconds().compute);
  EXPECT_EQ(forecast.seconds().thread, trace.seconds().thread);
  for (std::uint64_t position = 0; position < trace.n_moments(); ++position)
    for (const Need& need : trace.needs(position))
      EXPECT_EQ(forecast.arriving_bytes(position, need.chunk), trace.arriving_bytes(position, need.chunk));
}

/// By hand: units 0 and 1 with chunks 10 and 20, states 11, 21 and 22, gradients 12 and 23; chunk 20 is streamed.
class ByHand : public ::testing::Test {
 protected:
  ByHand() {
    add({MomentKind::forward, 0}, {{10, Tier::device, Access::read}});
    add({MomentKind::forward, 1}, {{20, Tier::device, Access::read}});
    add({MomentKind::backward, 1}, {{20, Tier::device, Access::read}, {23, Tier::host, Access::overwrite}});
    trace_.add_arrival(23, 800);
    add({MomentKind::backward, 0}, {{10, Tier::device, Access::read}, {12, Tier::host, Access::overwrite}});
    trace_.add_arrival(12, 400);
    update(0, 11, 12, 10);
    trace_.drop(12);
    update(1, 21, 23, 20);
    update(1, 22, 23, 20);
    trace_.drop(23);
    MomentSeconds seconds;
    for (std::size_t i = 0; i < trace_.n_moments(); ++i)
      seconds.compute.push_back(1.0 + static_cast<double>(i)), seconds.thread.push_back(0.5);
    trace_.set_seconds(seconds);
  }
  void add(Moment moment, const std::vector<Need>& needs) { trace_.add(moment, needs); }
  void update(std::uint32_t number, ChunkId states, ChunkId gradient, ChunkId payload) {
    add({MomentKind::update, number, true}, {{states, Tier::host, Access::update},
                                             {gradient, Tier::host, Access::read},
                                             {payload, Tier::host, Access::update}});
  }
  static std::vector<std::pair<MomentKind, std::uint32_t>> moments(const AccessTrace& trace) {
    std::vector<std::pair<MomentKind, std::uint32_t>> found;
    for (std::uint64_t i = 0; i < trace.n_moments(); ++i) found.emplace_back(trace.moment(i).kind, trace.moment(i).id);
    return found;
  }

  AccessTrace trace_;
  const std::vector<UpdatedChunk> streamed_ = {{1, 20, 5000, {23}}};
};

constexpr auto kForward = MomentKind::forward, kBackward = MomentKind::backward, kUpdate = MomentKind::update;

TEST_F(ByHand, InPlaceItIsTheDevicesUpdate) {
  const AccessTrace made = with_streams(trace_, streamed_, false);
  EXPECT_EQ(moments(made), moments(trace_));
  EXPECT_FALSE(made.moment(5).beside);
  EXPECT_TRUE(made.moment(4).beside);
  for (const Need& need : made.needs(6)) EXPECT_EQ(need.tier, Tier::device) << need.chunk;
  EXPECT_EQ(made.needs(2)[1].tier, Tier::device) << "its gradient stays there";
  EXPECT_EQ(made.arriving_bytes(2, 23), 0);
  EXPECT_EQ(made.arriving_bytes(3, 12), 400);
  EXPECT_TRUE(made.dropped(6, 23));
  EXPECT_FALSE(made.dropped(5, 23));
  EXPECT_EQ(made.seconds().compute[4], 5.0);
  EXPECT_LT(made.seconds().compute[5], 1e-3);
}

TEST_F(ByHand, AtTheNextUseItComesRightBeforeThatInForward) {
  const AccessTrace made = with_streams(trace_, streamed_, true);
  EXPECT_EQ(
      moments(made),
      (std::vector<std::pair<MomentKind, std::uint32_t>>{
          {kForward, 0}, {kUpdate, 1}, {kUpdate, 1}, {kForward, 1}, {kBackward, 1}, {kBackward, 0}, {kUpdate, 0}}));
  EXPECT_EQ(made.needs(1)[0], (Need{21, Tier::device, Access::update}));
  EXPECT_EQ(made.needs(2)[0], (Need{22, Tier::device, Access::update}));
  EXPECT_TRUE(made.dropped(2, 23));
  EXPECT_EQ(made.seconds().compute[3], 2.0);
  EXPECT_EQ(made.seconds().compute[6], 5.0);
}

}  // namespace
}  // namespace castor::testing
