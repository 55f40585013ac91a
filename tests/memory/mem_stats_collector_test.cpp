// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/mem_stats_collector.h>

#include <gtest/gtest.h>

#include <castor/memory/result.h>

namespace castor {
namespace {

/// Three periods: (model, overall peak) = (100, 130), (300, 350), (200, 290), so non-model 30, 50, 90.
MemStats three_periods(MemStatsCollector& collector) {
  collector.begin_period(0, 999'999, 100);  // the reading from before the iteration is ignored
  collector.begin_period(1, 130, 300);
  collector.begin_period(4, 350, 200);
  return collector.finish(290);
}

TEST(MemStatsCollector, ChargesEachPeakToThePeriodThatEnded) {
  MemStatsCollector collector;
  const auto stats = three_periods(collector);
  ASSERT_EQ(stats.periods().size(), 3u);
  EXPECT_EQ(stats.periods()[0].non_model_peak_bytes, 30u);
  EXPECT_EQ(stats.periods()[1].non_model_peak_bytes, 50u);
  EXPECT_EQ(stats.periods()[2].non_model_peak_bytes, 90u);
  EXPECT_EQ(stats.periods()[2].moment, 4u);
  EXPECT_EQ(stats.periods()[2].overall_peak_bytes, 290u);
  EXPECT_EQ(stats.periods()[2].model_bytes, 200u);
}

TEST(MemStatsCollector, KnowsThePeakOfThePeriodsThatHaveEnded) {
  MemStatsCollector collector;
  EXPECT_EQ(collector.peak_so_far_bytes(), 0u);
  collector.begin_period(0, 0, 10);
  EXPECT_EQ(collector.peak_so_far_bytes(), 0u);
  collector.begin_period(1, 50, 10);
  EXPECT_EQ(collector.peak_so_far_bytes(), 40u);
  collector.begin_period(2, 30, 10);
  EXPECT_EQ(collector.peak_so_far_bytes(), 40u);
}

TEST(MemStats, MaximaNeedNotShareAPeriod) {
  MemStatsCollector collector;
  const auto stats = three_periods(collector);
  EXPECT_EQ(stats.max_overall_peak_bytes(), 350u);
  EXPECT_EQ(stats.max_model_bytes(), 300u);
  EXPECT_EQ(stats.max_non_model_peak_bytes(), 90u);
}

TEST(MemStats, AMomentInsideAPeriodBelongsToIt) {
  MemStatsCollector collector;
  const auto stats = three_periods(collector);
  EXPECT_EQ(stats.non_model_peak_bytes(0), 30u);
  EXPECT_EQ(stats.non_model_peak_bytes(1), 50u);
  EXPECT_EQ(stats.non_model_peak_bytes(3), 50u);
  EXPECT_EQ(stats.non_model_peak_bytes(4), 90u);
  EXPECT_EQ(stats.non_model_peak_bytes(77), 90u);
}

TEST(MemStats, OfNothingIsZero) {
  const MemStats stats;
  EXPECT_EQ(stats.non_model_peak_bytes(3), 0u);
  EXPECT_EQ(stats.max_overall_peak_bytes(), 0u);
  EXPECT_EQ(stats.max_model_bytes(), 0u);
  EXPECT_EQ(stats.max_non_model_peak_bytes(), 0u);
}

TEST(MemStatsCollector, TheLastReportOfModelDataCounts) {
  MemStatsCollector collector;
  collector.begin_period(0, 0, 100);
  collector.set_model_bytes(160);
  collector.set_model_bytes(150);
  EXPECT_EQ(collector.finish(210).periods()[0].non_model_peak_bytes, 60u);
}

TEST(MemStatsCollector, ModelDataAboveThePeakLeavesNothingElse) {
  MemStatsCollector collector;
  collector.begin_period(0, 0, 100);
  EXPECT_EQ(collector.finish(80).periods()[0].non_model_peak_bytes, 0u);
}

TEST(MemStatsCollector, StartsAfreshAfterEveryIteration) {
  MemStatsCollector collector;
  (void)three_periods(collector);
  const auto second = three_periods(collector);
  EXPECT_EQ(second.periods().size(), 3u);
  EXPECT_EQ(second.periods()[0].overall_peak_bytes, 130u);
  EXPECT_TRUE(collector.finish(5).periods().empty()) << "nothing was begun";
}

TEST(MemStatsCollector, ADiscardedIterationLeavesNoTrace) {
  MemStatsCollector collector;
  collector.begin_period(5, 0, 100);
  collector.begin_period(6, 1000, 100);
  collector.discard();
  EXPECT_EQ(three_periods(collector).max_overall_peak_bytes(), 350u);
}

TEST(MemStatsCollector, RefusesMomentsThatDoNotRise) {
  MemStatsCollector collector;
  collector.begin_period(3, 0, 100);
  EXPECT_THROW(collector.begin_period(3, 10, 100), ContractViolation);
  EXPECT_THROW(collector.begin_period(2, 10, 100), ContractViolation);
  collector.begin_period(4, 120, 100);
  EXPECT_EQ(collector.finish(150).periods()[0].non_model_peak_bytes, 20u);
}

TEST(MemStatsCollector, RefusesModelDataOutsideAPeriod) {
  MemStatsCollector collector;
  EXPECT_THROW(collector.set_model_bytes(1), ContractViolation);
}

}  // namespace
}  // namespace castor
