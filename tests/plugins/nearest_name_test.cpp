// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/nearest_name.h>

#include <gtest/gtest.h>

#include <vector>

namespace castor {
namespace {

const std::vector<std::string> kNames = {"gemini", "minimal_c", "torch_ddp"};

TEST(NearestName, FindsASlipOfTheFinger) {
  EXPECT_EQ(nearest_name("gemni", kNames), "gemini");  // one letter missing
  EXPECT_EQ(nearest_name("minimalc", kNames), "minimal_c");
  EXPECT_EQ(nearest_name("troch_ddp", kNames), "torch_ddp");  // two neighbours swapped
}

TEST(NearestName, LeavesAloneWhatIsFar) {
  EXPECT_EQ(nearest_name("zero", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("gnimie", kNames), std::nullopt);  // distance 4 of 6
  EXPECT_EQ(nearest_name("", kNames), std::nullopt);
  EXPECT_EQ(nearest_name("gemini", {}), std::nullopt);
}

TEST(NearestName, SaysItAsAQuestion) {
  EXPECT_EQ(did_you_mean("gemnii", kNames), "; did you mean 'gemini'?");
  EXPECT_EQ(did_you_mean("zero", kNames), "");
}

}  // namespace
}  // namespace castor
