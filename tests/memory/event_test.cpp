// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/event.h>

#include <gtest/gtest.h>

#include <thread>

#include <castor/memory/clock.h>

namespace castor {
namespace {

TEST(HostEventState, IsReachedOnlyByCompletion) {
  HostEventState state;
  EXPECT_FALSE(state.ready());
  state.complete({});
  EXPECT_TRUE(state.ready());
  EXPECT_TRUE(state.wait().ok());
}

TEST(HostEventState, EveryWaiterGetsTheOutcomeAndSeesTheWork) {
  const auto state = std::make_shared<HostEventState>();
  int payload = 0;  // written before complete, read after wait: the thread sanitizer checks the order
  std::atomic<int> n_seen{0};
  const auto reader = [&, event = Event(state)] {
    if (event.wait().error().message == "no space" && payload == 42) ++n_seen;
  };
  std::thread first(reader), second(reader);
  payload = 42;
  state->complete(Error{ErrorKind::io, "no space"});
  first.join();
  second.join();
  EXPECT_EQ(n_seen, 2);
}

TEST(HostEventState, CompletingTwiceIsABrokenContractAndKeepsTheFirstOutcome) {
  HostEventState state;
  state.complete({});
  EXPECT_THROW(state.complete(Error{ErrorKind::io, "late"}), ContractViolation);
  EXPECT_TRUE(state.wait().ok());
}

TEST(HostEventState, KnowsWhenItWasReached) {
  const auto state = std::make_shared<HostEventState>();
  const Event event(state);
  EXPECT_FALSE(event.reached_ns());
  const std::uint64_t before_ns = steady_now_ns();
  state->complete({});
  const std::uint64_t after_ns = steady_now_ns();
  ASSERT_TRUE(event.reached_ns());
  EXPECT_TRUE(before_ns <= *event.reached_ns() && *event.reached_ns() <= after_ns);
  EXPECT_FALSE(Event().reached_ns());
}

TEST(Event, CopiesStandForTheSamePoint) {
  const auto state = std::make_shared<HostEventState>();
  const Event event(state);
  const Event copy = event;
  EXPECT_FALSE(copy.ready());
  state->complete({});
  EXPECT_TRUE(copy.ready());
  EXPECT_EQ(copy.state(), event.state());
}

}  // namespace
}  // namespace castor
