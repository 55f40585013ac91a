// SPDX-License-Identifier: Apache-2.0
#include "early_updates.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace castor {
namespace {

/// Chunks by their numbers.
std::vector<PayloadId> chunks(std::initializer_list<std::uint32_t> numbers) {
  std::vector<PayloadId> found;
  for (const std::uint32_t chunk : numbers) found.push_back(PayloadId{chunk});
  return found;
}

/// Two chunks: tensors 0 and 1, and tensor 2.
class EarlyUpdatesTest : public ::testing::Test {
 protected:
  void landed(std::initializer_list<std::uint32_t> tensors) {
    for (const std::uint32_t tensor : tensors) early_.landed(TensorId{tensor});
  }

  void step(std::initializer_list<std::uint32_t> tensors) {
    early_.announce();
    landed(tensors);
    early_.end_step();
  }

  const ChunkLayout layout_ =
      plan_layout(std::vector<TensorSpec>{{256, DType::f32}, {256, DType::f32}, {512, DType::f32}}, {2048});
  EarlyUpdates early_{layout_};
};

TEST_F(EarlyUpdatesTest, AnAbandonedStepLeavesWhatTheOneBeforeShowed) {
  step({2, 1, 0});
  early_.announce();
  landed({2, 2, 1});
  early_.abandon();
  EXPECT_FALSE(early_.announced());
  EXPECT_EQ(early_.ready(), chunks({}));
  early_.announce();
  landed({2, 1});
  EXPECT_EQ(early_.ready(), chunks({1}));
  landed({0});
  EXPECT_EQ(early_.ready(), chunks({1, 0}));
}

TEST_F(EarlyUpdatesTest, TheFirstStepShowsWhatToExpect) {
  ASSERT_EQ(layout_.chunks.size(), 2u);
  early_.announce();
  landed({2, 1, 0});
  EXPECT_EQ(early_.ready(), chunks({}));
  early_.end_step();
  early_.announce();
  landed({2});
  EXPECT_EQ(early_.ready(), chunks({1}));
  landed({1});
  EXPECT_EQ(early_.ready(), chunks({1}));
  early_.set_updated(PayloadId{1});
  landed({0});
  EXPECT_EQ(early_.ready(), chunks({0}));
  EXPECT_TRUE(early_.updated(PayloadId{1}));
  early_.end_step();
  EXPECT_FALSE(early_.updated(PayloadId{1}));
}

TEST_F(EarlyUpdatesTest, AFirstStepOfOneGradientEachIsAssumedWhereThatIsSaid) {
  early_.expect_one_each();
  EXPECT_TRUE(early_.assumes());
  early_.announce();
  landed({1});
  EXPECT_EQ(early_.ready(), chunks({}));
  landed({2, 0});
  EXPECT_EQ(early_.ready(), chunks({1, 0}));
  early_.end_step();
  EXPECT_FALSE(early_.assumes());
}

TEST_F(EarlyUpdatesTest, ATensorUsedTwiceIsAwaitedTwice) {
  step({2, 2, 1, 0});
  early_.announce();
  landed({2});
  EXPECT_EQ(early_.ready(), chunks({}));
  landed({2});
  EXPECT_EQ(early_.ready(), chunks({1}));
}

TEST_F(EarlyUpdatesTest, MoreThanExpectedIsAnotherWay) {
  step({2, 1, 0});
  early_.announce();
  landed({2, 2});
  EXPECT_EQ(early_.ready(), chunks({}));
}

TEST_F(EarlyUpdatesTest, AChunkWithATensorThatGotNothingIsLeftToTheStep) {
  step({2, 0});
  early_.announce();
  landed({2, 0});
  EXPECT_EQ(early_.ready(), chunks({1}));
}

TEST_F(EarlyUpdatesTest, AChunkThatIsUsedAfterItsGradientsIsLeftToTheStep) {
  early_.announce();
  early_.used(PayloadId{1});
  landed({2, 1, 0});
  early_.used(PayloadId{0});
  early_.end_step();
  early_.announce();
  landed({2, 1, 0});
  EXPECT_EQ(early_.ready(), chunks({1}));
}

TEST_F(EarlyUpdatesTest, AStepThatWasNotAnnouncedShowsNothing) {
  landed({2, 1, 0});
  early_.end_step();
  early_.announce();
  landed({2, 1, 0});
  EXPECT_EQ(early_.ready(), chunks({}));
}

}  // namespace
}  // namespace castor
