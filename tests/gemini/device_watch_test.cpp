// SPDX-License-Identifier: Apache-2.0
#include "device_watch.h"

#include <gtest/gtest.h>

#include "allocator_host.h"

namespace castor {
namespace {

constexpr Moment kForward0 = {MomentKind::forward, 0}, kForward1 = {MomentKind::forward, 1};
constexpr Moment kBackward0 = {MomentKind::backward, 0}, kBackward1 = {MomentKind::backward, 1};
constexpr Moment kNorm = {MomentKind::norm, 0}, kUpdate = {MomentKind::update, 0};

using Known = std::vector<std::optional<std::uint64_t>>;

AccessTrace trace_of(const std::vector<Moment>& moments) {
  AccessTrace trace;
  for (const Moment& moment : moments) trace.add(moment, {});
  return trace;
}

TEST(WatchStates, FollowOneAnother) {
  using enum WatchState;
  struct Step {
    WatchState before, ended, broke_off;
  };
  for (const Step& step : {Step{off, off, off}, Step{warming_up, comparing, warming_up},
                           Step{comparing, done, comparing}, Step{done, done, done}}) {
    EXPECT_EQ(next_state(step.before, WatchEvent::ended), step.ended) << static_cast<int>(step.before);
    EXPECT_EQ(next_state(step.before, WatchEvent::broke_off), step.broke_off) << static_cast<int>(step.before);
  }
}

/// An allocator whose counters the test sets; a reset sets the peaks to the current values.
class CountedAllocator final : public DeviceCalls {
 public:
  Result<castor_device_memory> memory() override {
    ++n_reads_;
    return fails ? Result<castor_device_memory>(Error{ErrorKind::failed, "no counters"}) : counters;
  }
  void reset_peak() override {
    counters.allocated_peak = counters.allocated, counters.reserved_peak = counters.reserved, ++n_resets_;
  }

  int n_reads() const { return n_reads_; }
  int n_resets() const { return n_resets_; }

  castor_device_memory counters{};
  bool fails = false;

 private:
  int n_reads_ = 0, n_resets_ = 0;
};

class DeviceWatchOnAGpu : public ::testing::Test {
 protected:
  void set_chunks(std::uint64_t n_bytes) {
    chunks_.release(chunks_.used_bytes());
    ASSERT_TRUE(chunks_.try_reserve(n_bytes));
  }
  /// A use of a unit that computes with `chunk_bytes` and comes to `peak_bytes` in all.
  void use(Moment moment, std::uint64_t chunk_bytes, std::uint64_t peak_bytes) {
    watch_.begin_unit(moment);
    set_chunks(chunk_bytes);
    watch_.chunks_arrived();
    allocator_.counters.allocated_peak = peak_bytes;
  }
  void rest(std::uint64_t peak_bytes) {
    watch_.begin_rest();
    allocator_.counters.allocated_peak = peak_bytes;
  }

  CountedAllocator allocator_;
  test::AllocatorHost host_{allocator_};
  Budget chunks_{Tier::device};
  DeviceWatch watch_{host_, chunks_, true};
};

TEST_F(DeviceWatchOnAGpu, EachUseIsChargedWithThePeakLessTheChunksItComputesWith) {
  allocator_.counters.allocated_peak = 5000;  // before the first unit: of no period
  watch_.look();
  use(kForward0, 40, 100);
  use(kForward1, 70, 120);
  use(kBackward1, 20, 75);
  rest(30);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u) << "60, 50, 55 and 10";
}

TEST_F(DeviceWatchOnAGpu, AUseThatWouldExceedThePeakOfTheWarmUpSaysByHowMuch) {
  const auto begin = [this](Moment moment, std::uint64_t allocated, std::uint64_t peak) {
    allocator_.counters.allocated = allocated;
    set_chunks(40);
    use(moment, 40, peak);
  };
  begin(kForward0, 40, 100);   // takes 60
  begin(kForward0, 50, 90);    // and 40
  begin(kBackward0, 70, 120);  // takes 50, and comes to 80 beside chunks
  EXPECT_EQ(watch_.excess_bytes(kBackward0), 0u) << "not known yet";
  rest(70);
  watch_.end_step();
  begin(kForward0, 55, 100);
  EXPECT_EQ(watch_.excess_bytes(kForward0), 0u) << "15 and 60";
  EXPECT_EQ(watch_.excess_bytes(kBackward1), 0u) << "the warm-up did not have it";
  begin(kForward0, 70, 130);
  EXPECT_EQ(watch_.excess_bytes(kForward0), 10u) << "30 and 60";
  begin(kBackward0, 95, 130);
  EXPECT_EQ(watch_.excess_bytes(kBackward0), 25u) << "55 and 50";
}

TEST_F(DeviceWatchOnAGpu, MomentsOfAnIterationHaveTheBytesOfTheWarmUp) {
  use(kForward0, 40, 1000);  // evaluation, and a forward pass that broke off
  use(kForward0, 40, 100);
  use(kForward1, 70, 120);
  use(kBackward1, 20, 75);
  use(kBackward0, 40, 45);
  rest(48);  // from the end of backward to the step
  rest(42);
  watch_.end_step();
  const std::vector<Moment> step = {kForward0, kForward1, kBackward1, kBackward0, kNorm, kUpdate};
  EXPECT_EQ(watch_.non_model_bytes(trace_of(step)), (Known{60, 50, 55, 8, 2, 2}));
  EXPECT_EQ(watch_.non_model_peak_bytes(), 960u);
}

TEST_F(DeviceWatchOnAGpu, MomentsThatTheWarmUpDidNotHaveAreUnknown) {
  EXPECT_EQ(watch_.non_model_bytes(trace_of({kUpdate})), Known(1)) << "not yet";
  use(kForward0, 40, 100);
  use(kBackward0, 40, 100);
  rest(50);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_bytes(trace_of({kForward1, kBackward0, kUpdate})), Known(3)) << "another unit";
  EXPECT_EQ(watch_.non_model_bytes(trace_of({kForward0, kForward0, kBackward0, kUpdate})), Known(4)) << "one more";
  EXPECT_EQ(watch_.non_model_bytes(trace_of({})), Known());
}

TEST_F(DeviceWatchOnAGpu, WhatCameAfterAMomentAndStayedIsPartOfItFromThenOn) {
  const auto begin = [this](Moment moment, std::uint64_t allocated, std::uint64_t peak) {
    allocator_.counters.allocated = allocated;
    use(moment, 40, peak);
  };
  begin(kForward0, 100, 140);  // evaluation, not a use of the step
  begin(kForward0, 40, 150);   // chunks alone
  begin(kForward1, 40, 170);
  begin(kBackward1, 60, 200);  // a workspace of 32 is taken
  begin(kBackward0, 92, 210);
  rest(60);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 170u);
  set_chunks(40);
  begin(kForward0, 72, 150);
  begin(kForward1, 72, 170);
  begin(kBackward1, 99, 200);  // 7 of it gradients being copied
  begin(kBackward0, 95, 210);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_bytes(trace_of({kForward0, kForward1, kBackward1, kBackward0, kUpdate})),
            (Known{110 + 32, 130 + 32, 160 + 32, 170 + 3, 20}));
  EXPECT_EQ(watch_.non_model_peak_bytes(), 192u);
}

TEST_F(DeviceWatchOnAGpu, AStepThatGoesAnotherWayThanTheWarmUpIsNotComparedWithIt) {
  use(kForward0, 40, 150);
  rest(60);
  watch_.end_step();
  allocator_.counters.allocated = 1000;
  use(kForward1, 40, 150);
  use(kForward0, 40, 150);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 110u);
}

TEST_F(DeviceWatchOnAGpu, TheWarmUpGoesOnAfterAStepThatBrokeOff) {
  use(kForward0, 40, 150);
  rest(45);
  watch_.break_off();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 0u) << "not known yet";
  use(kForward0, 40, 100);
  use(kBackward0, 40, 140);
  rest(60);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 110u) << "that of the first step counts too";
  EXPECT_EQ(watch_.non_model_bytes(trace_of({kForward0, kBackward0, kUpdate})), (Known{60, 100, 20}));
}

TEST_F(DeviceWatchOnAGpu, AStepThatBrokeOffIsNotComparedWithTheWarmUp) {
  set_chunks(40);
  allocator_.counters.allocated = 40;
  use(kForward0, 40, 150);
  use(kBackward0, 40, 150);
  watch_.end_step();
  allocator_.counters.allocated = 1000;
  use(kForward0, 40, 150);
  watch_.break_off();
  allocator_.counters.allocated = 45;
  use(kForward0, 40, 150);
  use(kBackward0, 40, 150);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 110u + 5);
}

TEST_F(DeviceWatchOnAGpu, WhatIsReservedAboveTheAllocatedPeakIsTheAllocators) {
  allocator_.counters = {sizeof(castor_device_memory), 10, 80, 100, 100, 0};
  watch_.begin_unit(kForward0);
  allocator_.counters = {sizeof(castor_device_memory), 10, 90, 120, 130, 0};
  watch_.begin_rest();
  watch_.end_step();
  EXPECT_EQ(watch_.allocator_bytes(), 40u) << "130 less 90, whenever each was";
}

TEST_F(DeviceWatchOnAGpu, WhatTheOptimizersStepTakesCounts) {
  use(kForward0, 40, 100);
  rest(110);  // after backward
  rest(130);  // the step, which releases its chunks
  set_chunks(0);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 90u) << "charged with the chunks that it begins with";
}

TEST_F(DeviceWatchOnAGpu, StatisticsInBetweenLoseNoPeak) {
  use(kForward0, 40, 100);
  watch_.look();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 0u) << "known at the end of the warm-up";
  rest(10);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u);
}

TEST_F(DeviceWatchOnAGpu, UsesWhoseChunksNeverCameAndStepsThatFailedAreNoContractBroken) {
  use(kForward0, 40, 100);
  watch_.begin_unit(kForward0);  // its chunks had no room
  watch_.begin_unit(kForward0);
  watch_.chunks_arrived();
  rest(45);
  rest(50);  // a step that failed
  rest(55);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u);
}

TEST_F(DeviceWatchOnAGpu, AStepWithoutUnitsHasNothingBesideChunks) {
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 0u);
}

TEST_F(DeviceWatchOnAGpu, EvaluationWithNoStepInSightIsForgotten) {
  use(kForward0, 40, 1000);
  for (int i = 0; i < (1 << 18); ++i) use(kForward0, 40, 100);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u);
}

TEST_F(DeviceWatchOnAGpu, AfterTheWarmUpNothingIsMeasuredOrReset) {
  use(kForward0, 40, 100);
  watch_.end_step();
  const int n_resets = allocator_.n_resets(), n_reads = allocator_.n_reads();
  use(kForward0, 40, 500);
  rest(500);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u);
  EXPECT_EQ(allocator_.n_resets(), n_resets);
  EXPECT_EQ(allocator_.n_reads(), n_reads + 3) << "once a hook";
}

TEST_F(DeviceWatchOnAGpu, HeldIsAllThatIsReservedAndItsPeakOutlivesResets) {
  allocator_.counters.reserved = 200, allocator_.counters.reserved_peak = 300;
  watch_.begin_unit(kForward0);
  EXPECT_EQ(watch_.held_bytes(), 200u);
  EXPECT_EQ(watch_.reserved_peak_bytes(), 300u);
  allocator_.counters.reserved = 250, allocator_.counters.reserved_peak = 260;
  watch_.look();
  EXPECT_EQ(watch_.held_bytes(), 250u);
  EXPECT_EQ(watch_.reserved_peak_bytes(), 300u);
}

TEST_F(DeviceWatchOnAGpu, MemoryThatTheAllocatorGaveToChunksCountsOnce) {
  std::uint64_t own_bytes = 0;
  DeviceWatch watch(host_, chunks_, true, [&] { return own_bytes; });
  allocator_.counters.reserved = allocator_.counters.reserved_peak = 300;
  watch.look();
  allocator_.counters.reserved = 200;
  watch.forget_allocators_peak();
  own_bytes = 90;
  watch.look();
  EXPECT_EQ(watch.held_bytes(), 290u);
  EXPECT_EQ(watch.reserved_peak_bytes(), 300u) << "not 390";
  own_bytes = 110;
  watch.look();
  EXPECT_EQ(watch.reserved_peak_bytes(), 310u);
}

TEST_F(DeviceWatchOnAGpu, TheWarmUpKeepsWhatItMeasuredWhenThePeakIsForgotten) {
  allocator_.counters.allocated_peak = 5000;  // before the first unit: of no period
  watch_.forget_allocators_peak();
  use(kForward0, 40, 100);
  watch_.forget_allocators_peak();
  use(kBackward0, 20, 75);
  rest(30);
  watch_.end_step();
  EXPECT_EQ(watch_.non_model_peak_bytes(), 60u);
  EXPECT_EQ(watch_.excess_bytes(kForward0), 0u);
}

TEST_F(DeviceWatchOnAGpu, CountersThatCannotBeReadStayAsTheyWere) {
  allocator_.counters.reserved = 200, allocator_.counters.reserved_peak = 300;
  watch_.look();
  allocator_.counters.reserved = 0, allocator_.counters.reserved_peak = 999, allocator_.fails = true;
  watch_.begin_unit(kForward0);
  EXPECT_EQ(watch_.held_bytes(), 200u);
  EXPECT_EQ(watch_.reserved_peak_bytes(), 300u);
}

TEST(DeviceWatch, WhereTheDeviceIsTheHostChunksAreAllThereIs) {
  CountedAllocator allocator;
  test::AllocatorHost host(allocator);
  Budget chunks(Tier::device);
  DeviceWatch watch(host, chunks, false);
  watch.begin_unit(kForward0);
  ASSERT_TRUE(chunks.try_reserve(40));
  watch.chunks_arrived();
  EXPECT_EQ(watch.held_bytes(), 40u);
  watch.begin_rest();
  watch.end_step();
  EXPECT_EQ(watch.non_model_peak_bytes(), 0u);
  EXPECT_EQ(watch.reserved_peak_bytes(), 0u);
  EXPECT_EQ(allocator.n_reads() + allocator.n_resets(), 0);
}

}  // namespace
}  // namespace castor
