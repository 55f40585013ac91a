// SPDX-License-Identifier: Apache-2.0
#include "train/loss_scaler.h"

#include <gtest/gtest.h>

namespace castor::train {
namespace {

void repeat(LossScaler& scaler, int n, bool skipped) {
  for (int i = 0; i < n; ++i) scaler.update(skipped);
}

TEST(LossScaler, BeginsAt65536) { EXPECT_EQ(LossScaler().scale(), 65536); }

TEST(LossScaler, DoublesAfterAThousandGoodSteps) {
  LossScaler scaler;
  repeat(scaler, 999, false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
  repeat(scaler, 1000, false);
  EXPECT_EQ(scaler.scale(), 262144);
}

TEST(LossScaler, OneOverflowCostsNoScale) {
  LossScaler scaler;
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(LossScaler, EveryOverflowFromTheSecondHalves) {
  LossScaler scaler;
  repeat(scaler, 2, true);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16384);
}

TEST(LossScaler, AnOverflowBreaksTheRowOfGoodSteps) {
  LossScaler scaler;
  repeat(scaler, 999, false);
  scaler.update(true);
  repeat(scaler, 999, false);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(LossScaler, GrowthRestoresThePatience) {
  LossScaler scaler;
  scaler.update(true);
  repeat(scaler, 1000, false);
  EXPECT_EQ(scaler.scale(), 131072);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(LossScaler, NeverBelowOne) {
  LossScaler scaler;
  repeat(scaler, 40, true);
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, NeverAboveTwoToThe32) {
  LossScaler scaler;
  repeat(scaler, 20 * 1000, false);
  EXPECT_EQ(scaler.scale(), 4294967296.0);
}

}  // namespace
}  // namespace castor::train
