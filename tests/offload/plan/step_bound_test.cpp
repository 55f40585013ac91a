// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/step_bound.h>

#include <gtest/gtest.h>

#include <array>

namespace castor {
namespace {

/// Weights (chunk 0, 8 bytes) that are used forward for 2 s and backward for 4 s, of which recomputing takes 1 s, and
/// updated on the host in two tiles of 3 s each.
class StepBoundTest : public ::testing::Test {
 protected:
  void pass() {
    const std::array weights = {Need{ChunkId{0}, Tier::device, Access::read}};
    add({MomentKind::forward, 0}, weights, 2);
    add({MomentKind::backward, 0}, weights, 3);
    add({MomentKind::forward, 0}, weights, 1);
  }
  void norm() { add({MomentKind::norm, 0}, {}, 0); }
  void update(bool beside, double seconds) {
    const Tier tier = beside ? Tier::host : Tier::device;
    const std::array needs = {Need{ChunkId{1}, tier, Access::update}, Need{ChunkId{2}, tier, Access::read},
                              Need{ChunkId{0}, tier, Access::update}};
    add({MomentKind::update, 0, beside}, needs, seconds);
  }
  void add(Moment moment, std::span<const Need> needs, double seconds) {
    trace_.add(moment, needs);
    seconds_.compute.push_back(seconds);
    seconds_.thread.push_back(0);
  }
  StepBound bound() const { return step_bound(trace_, seconds_, plan_, n_bytes_, costs_); }

  AccessTrace trace_;
  MomentSeconds seconds_;
  StepPlan plan_;
  LinkCosts costs_ = {0.25, 0.5, 1, 1, 0.75};  // seconds a byte
  const IndexedVector<ChunkId, std::uint64_t> n_bytes_ = {8, 40, 8};
};

TEST_F(StepBoundTest, UpdatesHideBehindThePassesAndTheFirstTileDoesNot) {
  pass();
  update(true, 3);
  update(true, 3.5);
  // 6 s compute, 6.5 s update; of a tile 4 bytes down (2 s), 3 s, 4 bytes up (1 s)
  EXPECT_EQ(bound().seconds, 6.5 + 6);
  EXPECT_STREQ(bound().by, "host_update");
  seconds_.compute[0] = 3;
  EXPECT_EQ(bound().seconds, 7 + 6);
  EXPECT_STREQ(bound().by, "compute");
}

TEST_F(StepBoundTest, AfterANormTheyHideBehindTheForwardPassAlone) {
  pass();
  norm();
  update(true, 3);
  update(true, 3.5);
  EXPECT_EQ(bound().seconds, 4 + 6.5 + 6) << "backward, and then all updates, longer than forward";
  EXPECT_STREQ(bound().by, "host_update");
  seconds_.compute[0] = 7;
  EXPECT_EQ(bound().seconds, 4 + 7 + 6);
  EXPECT_STREQ(bound().by, "compute");
}

TEST_F(StepBoundTest, ThoseThatAreMadeBeforeTheNormDoNotWaitForIt) {
  pass();
  update(true, 3);
  norm();
  update(true, 3.5);
  EXPECT_EQ(bound().seconds, 4 + 3.5 + 6) << "backward, and then one update";
  EXPECT_STREQ(bound().by, "host_update");
  seconds_.compute[3] = 7;
  EXPECT_EQ(bound().seconds, 7 + 3.5 + 10) << "all updates; the first is that of the first tile too";
}

TEST_F(StepBoundTest, UpdatesOnTheDeviceTakeItsTime) {
  pass();
  update(false, 0.5);
  EXPECT_EQ(bound().seconds, 6.5) << "and no gradient goes down";
  norm();
  EXPECT_EQ(bound().seconds, 6.5);
}

TEST_F(StepBoundTest, ALinkOrTheDriveBinds) {
  pass();
  plan_.estimate.moved.h2d = 100;
  EXPECT_EQ(bound().seconds, 25);
  EXPECT_STREQ(bound().by, "h2d");
  plan_.estimate.moved.nvme_read = plan_.estimate.moved.nvme_write = 40;  // 0.75 of 80 s in turns
  EXPECT_EQ(bound().seconds, 60);
  EXPECT_STREQ(bound().by, "nvme");
}

TEST_F(StepBoundTest, NothingIsBoundByNothing) { EXPECT_EQ(bound().seconds, 0); }

TEST_F(StepBoundTest, PassesAreToldApart) {
  pass();
  update(false, 0.5);
  update(true, 3);
  const PassSeconds found = pass_seconds(trace_, seconds_);
  EXPECT_EQ(found.forward, 2);
  EXPECT_EQ(found.backward, 4);
  EXPECT_EQ(found.update_on_device, 0.5);
  EXPECT_EQ(found.update_beside, 3);
  EXPECT_FALSE(found.measures_norm);
  EXPECT_FALSE(found.wait_for_norm());
  norm();
  EXPECT_FALSE(pass_seconds(trace_, seconds_).wait_for_norm()) << "the updates were made before";
  update(true, 4);
  EXPECT_TRUE(pass_seconds(trace_, seconds_).wait_for_norm());
  EXPECT_EQ(pass_seconds(trace_, seconds_).update_beside, 7);
  EXPECT_EQ(pass_seconds(trace_, seconds_).update_after_norm, 4);
}

}  // namespace
}  // namespace castor
