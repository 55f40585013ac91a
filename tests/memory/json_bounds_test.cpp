// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/json_bounds.h>

#include <gtest/gtest.h>

namespace castor {
namespace {

constexpr const char* kDeep = "it nests more than 32 levels deep";
constexpr const char* kNumber = "one of its numbers is out of range";

TEST(JsonBounds, LevelsAreCountedOutsideStrings) {
  EXPECT_EQ(json_out_of_bounds(R"([{"a": 1}, [2], "[[[[", "\"[[[["])"), std::nullopt);
  EXPECT_EQ(json_out_of_bounds(std::string(32, '[') + std::string(32, ']')), std::nullopt);
  EXPECT_EQ(json_out_of_bounds(std::string(33, '{')), kDeep);
  EXPECT_EQ(json_out_of_bounds("[" + std::string(400'000, '[')), kDeep);
  EXPECT_EQ(json_out_of_bounds(std::string(40, ']') + std::string(32, '[')), std::nullopt);
}

TEST(JsonBounds, NumbersFitIntegers) {
  for (const char* good : {"[0, -1, 1.5, 2e10, 2305843009213693951, -2305843009213693951]", R"({"1e99": "-1e99"})"})
    EXPECT_EQ(json_out_of_bounds(good), std::nullopt) << good;
  for (const char* bad : {"40e96", "[1e400]", "[-1.5]", "[-1e3]", "18446744073709551616", "-9223372036854775808"})
    EXPECT_EQ(json_out_of_bounds(bad), kNumber) << bad;
}

}  // namespace
}  // namespace castor
