// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/access_trace.h>

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace castor {
namespace {

Need on_device(ChunkId chunk) { return {chunk, Tier::device, Access::read}; }

TEST(AccessTrace, CountsTheMomentsToTheNextUseAndWraps) {
  AccessTrace trace;
  trace.add({MomentKind::forward, 0}, std::array{on_device(ChunkId{5})});
  trace.add({MomentKind::forward, 1}, std::array{on_device(ChunkId{6})});
  trace.add({MomentKind::backward, 1}, std::array{on_device(ChunkId{6})});
  EXPECT_EQ(trace.distance(ChunkId{5}, Tier::device, 0), 0u);
  EXPECT_EQ(trace.distance(ChunkId{5}, Tier::device, 1), 2u);
  EXPECT_EQ(trace.distance(ChunkId{6}, Tier::device, 0), 1u);
  EXPECT_EQ(trace.distance(ChunkId{6}, Tier::device, 3), 1u) << "past the end the iteration starts again";
}

TEST(AccessTrace, ATierWhereItIsNeverNeededIsNever) {
  AccessTrace trace;
  trace.add({MomentKind::forward, 0}, std::array{on_device(ChunkId{5})});
  EXPECT_EQ(trace.distance(ChunkId{5}, Tier::host, 0), AccessTrace::kNever);
  EXPECT_EQ(trace.distance(ChunkId{4}, Tier::device, 0), AccessTrace::kNever);
}

TEST(AccessTrace, AgreesWithALinearScanOfTwoIterations) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    AccessTrace trace;
    std::vector<ChunkId> used;
    for (std::uint32_t i = 0; i < 1 + seed % 12; ++i) {
      used.push_back(id_at<ChunkId>(random() % 5));
      trace.add({MomentKind::forward, i}, std::array{on_device(used.back())});
    }
    for (const ChunkId chunk : ids<ChunkId>(5))
      for (std::size_t position = 0; position < used.size(); ++position) {
        std::uint64_t expected = AccessTrace::kNever;
        for (std::size_t step = 0; step < used.size() && expected == AccessTrace::kNever; ++step)
          if (used[(position + step) % used.size()] == chunk) expected = step;
        EXPECT_EQ(trace.distance(chunk, Tier::device, position), expected);
      }
  }
}

TEST(AccessTrace, NeedsThatComeUpDuringAMomentBelongToIt) {
  AccessTrace trace;
  EXPECT_THROW(trace.add_need(on_device(ChunkId{1})), ContractViolation);
  trace.add({MomentKind::backward, 0}, std::array{on_device(ChunkId{5})});
  trace.add_need({ChunkId{7}, Tier::host, Access::overwrite});
  trace.add_need({ChunkId{7}, Tier::host, Access::update});
  ASSERT_EQ(trace.needs(0).size(), 2u) << "a second need of one chunk adds nothing";
  EXPECT_EQ(trace.needs(0)[1].access, Access::overwrite);
  EXPECT_EQ(trace.distance(ChunkId{7}, Tier::host, 0), 0u);
}

TEST(AccessTrace, ADropBelongsToTheLastUse) {
  AccessTrace trace;
  trace.add({MomentKind::backward, 0}, std::array{Need{ChunkId{5}, Tier::host, Access::overwrite}});
  trace.add({MomentKind::update, 0}, std::array{Need{ChunkId{5}, Tier::device, Access::read}});
  trace.add({MomentKind::update, 1}, std::array{on_device(ChunkId{6})});
  trace.drop(ChunkId{5});
  trace.drop(ChunkId{9});
  EXPECT_FALSE(trace.dropped(0, ChunkId{5}));
  EXPECT_TRUE(trace.dropped(1, ChunkId{5}));
  EXPECT_FALSE(trace.dropped(2, ChunkId{6}));
}

TEST(AccessTrace, ArrivalsAddUpByMomentAndChunk) {
  AccessTrace trace;
  EXPECT_THROW(trace.add_arrival(ChunkId{5}, 1), ContractViolation);
  trace.add({MomentKind::backward, 0}, std::array{Need{ChunkId{5}, Tier::host, Access::overwrite}});
  trace.add_arrival(ChunkId{5}, 30);
  trace.add_arrival(ChunkId{5}, 12);
  trace.add({MomentKind::backward, 1}, std::array{Need{ChunkId{5}, Tier::host, Access::update}});
  EXPECT_EQ(trace.arriving_bytes(0, ChunkId{5}), 42u);
  EXPECT_EQ(trace.arriving_bytes(1, ChunkId{5}), 0u);
  EXPECT_EQ(trace.arriving_bytes(0, ChunkId{6}), 0u);
}

TEST(AccessTrace, TimesAreNoPartOfWhatIsCompared) {
  AccessTrace one, other;
  for (AccessTrace* trace : {&one, &other}) trace->add({MomentKind::forward, 0}, std::array{on_device(ChunkId{5})});
  one.set_seconds({{3}, {1}});
  EXPECT_THROW(one.set_seconds({{3, 4}, {1}}), ContractViolation);
  EXPECT_THROW(one.set_seconds({{3}, {}}), ContractViolation);
  EXPECT_TRUE(one.same_accesses(other));
  other.drop(ChunkId{5});
  EXPECT_FALSE(one.same_accesses(other));
}

}  // namespace
}  // namespace castor
