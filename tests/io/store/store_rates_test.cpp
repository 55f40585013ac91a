// SPDX-License-Identifier: Apache-2.0
#include <castor/io/store_rates.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "../../support/scratch_folder.h"

namespace castor {
namespace {

TEST(StoreRates, AreThoseOfADriveAndLeaveNothingBehind) {
  const test::ScratchFolder folder;
  TensorStoreOptions options;
  options.folders = {folder.path()};
  const StoreRates rates = calibrate_store(options).value();
  for (const double rate : {rates.read, rates.write, rates.both}) {
    EXPECT_GT(rate, 1e6) << "no drive is as slow as 1 MB/s";
    EXPECT_LT(rate, 1e12) << "and none as fast as memory";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(StoreRates, ShareIsWhatOneDirectionTakesFromTheOther) {
  EXPECT_DOUBLE_EQ((StoreRates{2, 6, 3}).share(), 1) << "a byte each way: 2/3 s, which is 1/2 and 1/6";
  EXPECT_DOUBLE_EQ((StoreRates{2, 2, 4}).share(), 0.5) << "as if each were alone";
  EXPECT_DOUBLE_EQ((StoreRates{2, 2, 1}).share(), 1) << "worse than in turns";
}

TEST(StoreRates, NeedRoom) {
  const test::ScratchFolder folder;
  Budget budget(Tier::nvme, 1 << 20);
  TensorStoreOptions options;
  options.folders = {folder.path()};
  options.budget = &budget;
  EXPECT_EQ(calibrate_store(options).error().kind, ErrorKind::does_not_fit);
  options.folders = {folder.path() + "/none"};
  EXPECT_EQ(calibrate_store(options).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace castor
