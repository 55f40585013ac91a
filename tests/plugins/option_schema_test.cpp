// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/option_schema.h>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace castor {
namespace {

const castor_option kBool = {sizeof(castor_option), CASTOR_OPTION_BOOL, "prefetch", "true", 0, 0, nullptr,
                             "fetch ahead"};
const castor_option kInt = {sizeof(castor_option), CASTOR_OPTION_INT, "depth", "4", 1, 16, nullptr, "units ahead"};
const castor_option kFloat = {sizeof(castor_option), CASTOR_OPTION_FLOAT, "fraction", "0.5", 0, 1, nullptr, "share"};
const castor_option kBytes = {sizeof(castor_option), CASTOR_OPTION_BYTES, "chunk", "32MiB", 65536, INFINITY, nullptr,
                              "size of a chunk"};
const castor_option kText = {sizeof(castor_option), CASTOR_OPTION_STRING, "label", "", 0, 0, nullptr, "for the log"};
const castor_option kEnum = {sizeof(castor_option), CASTOR_OPTION_ENUM, "policy", "auto", 0, 0,
                             "auto|static|cpu",     "where data lies"};
const castor_option kRetired = {sizeof(castor_option), CASTOR_OPTION_RETIRED, "lookahead", "", 0, 0, nullptr,
                                "set depth instead"};
const std::vector<const castor_option*> kSchema = {&kBool, &kInt, &kFloat, &kBytes, &kText, &kEnum, &kRetired};

std::string crossing(const castor_option& option, std::string_view value) {
  return check_option(option, value).value();
}

std::string refusal(const castor_option& option, std::string_view value) {
  const auto checked = check_option(option, value);
  return checked.ok() ? "accepted as " + *checked : checked.error().message;
}

TEST(CheckOption, ASizeMayHaveNoDefaultAndThenCrossesEmpty) {
  const castor_option limit = {
      sizeof(castor_option), CASTOR_OPTION_BYTES, "budget", "", 0, INFINITY, nullptr, "a limit"};
  EXPECT_EQ(check_option(limit, "").value(), "");
  EXPECT_EQ(check_option(limit, "1KiB").value(), "1024");
  EXPECT_FALSE(check_option(kBytes, "").ok()) << "a size with a default must be one";
}

TEST(CheckOption, PassesSoundValuesAsTheyCross) {
  EXPECT_EQ(crossing(kBool, "false"), "false");
  EXPECT_EQ(crossing(kInt, "016"), "16");
  EXPECT_EQ(crossing(kInt, "1"), "1");
  EXPECT_EQ(crossing(kFloat, "1e-3"), "1e-3");
  EXPECT_EQ(crossing(kBytes, "64KiB"), "65536");
  EXPECT_EQ(crossing(kBytes, "1.5GiB"), "1610612736");
  EXPECT_EQ(crossing(kText, "any; text"), "any; text");
  EXPECT_EQ(crossing(kEnum, "cpu"), "cpu");
}

TEST(CheckOption, RefusesWithTheValueAndWhatItTakes) {
  EXPECT_EQ(refusal(kBool, "yes"), "option 'prefetch': 'yes' is not among its values; it takes true or false");
  EXPECT_EQ(refusal(kInt, "17"), "option 'depth': '17' is out of range; it takes a whole number from 1 to 16");
  EXPECT_EQ(refusal(kFloat, "1.01"), "option 'fraction': '1.01' is out of range; it takes a number from 0 to 1");
  EXPECT_EQ(refusal(kBytes, "1KiB"),
            "option 'chunk': '1KiB' is out of range; it takes a size such as 512MiB from 64.0 KiB up");
  EXPECT_EQ(refusal(kBytes, "many"),
            "option 'chunk': 'many' is not a size; it takes a size such as 512MiB from 64.0 KiB up");
  EXPECT_EQ(refusal(kEnum, "gpu"), "option 'policy': 'gpu' is not among its values; it takes auto, static or cpu");
}

TEST(CheckOption, RefusesWhatIsNoWholeNumber) {
  for (const char* text : {"", " 4", "4 ", "4.0", "four", "+4", "0x4", "99999999999999999999"})
    EXPECT_FALSE(check_option(kInt, text).ok()) << text;
}

TEST(CheckOption, RefusesWhatIsNoFiniteNumber) {
  for (const char* text : {"", "nan", "inf", "-inf", "0.5x", "1e999"})
    EXPECT_FALSE(check_option(kFloat, text).ok()) << text;
}

TEST(CheckOption, TakesOnlyWholeChoices) {
  for (const char* text : {"", "aut", "auto|static", "Auto"}) EXPECT_FALSE(check_option(kEnum, text).ok()) << text;
}

TEST(DescribeValues, LeavesOutLimitsThatAreNone) {
  EXPECT_EQ(describe_values({sizeof(castor_option), CASTOR_OPTION_INT, "n", "0", -INFINITY, INFINITY, nullptr, ""}),
            "a whole number");
  EXPECT_EQ(describe_values({sizeof(castor_option), CASTOR_OPTION_FLOAT, "n", "0", -INFINITY, 2.5, nullptr, ""}),
            "a number up to 2.5");
  EXPECT_EQ(describe_values({sizeof(castor_option), CASTOR_OPTION_BYTES, "n", "0", 0, 1073741824, nullptr, ""}),
            "a size such as 512MiB up to 1.00 GiB");
  EXPECT_EQ(describe_values(kText), "any text");
}

TEST(CompleteOptions, FillsInDefaultsAndLeavesOutRetiredOnes) {
  const PluginOptions expected = {{"prefetch", "true"},  {"depth", "7"}, {"fraction", "0.5"},
                                  {"chunk", "33554432"}, {"label", ""},  {"policy", "auto"}};
  EXPECT_EQ(complete_options("stub", kSchema, {{"depth", "7"}}).value(), expected);
}

/// Every refusal names the option to a program, too.
TEST(CompleteOptions, ARefusalCarriesTheOption) {
  for (const char* option : {"depht", "depth", "fraction", "chunk", "policy", "lookahead"}) {
    const auto refused = complete_options("stub", kSchema, {{option, "many"}});
    ASSERT_FALSE(refused.ok()) << option;
    EXPECT_EQ(refused.error().option, option);
    EXPECT_FALSE(refused.error().shortage);
  }
}

TEST(CompleteOptions, RefusesAnUnknownNameWithTheNearest) {
  const auto refused = complete_options("stub", kSchema, {{"depht", "7"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(
      refused.error().message,
      "plugin stub has no option 'depht', did you mean 'depth'?; it takes prefetch, depth, fraction, chunk, label "
      "and policy");  // two neighbours swapped
  EXPECT_EQ(complete_options("stub", kSchema, {{"dept", "7"}}).error().message,
            "plugin stub has no option 'dept', did you mean 'depth'?; it takes prefetch, depth, fraction, chunk, label "
            "and policy");
}

TEST(CompleteOptions, RefusesAnyOptionWhereThereAreNone) {
  EXPECT_EQ(complete_options("minimal_c", {}, {{"depth", "7"}}).error().message,
            "plugin minimal_c has no option 'depth'; it takes none");
}

TEST(CompleteOptions, RefusesARetiredOptionAndSaysWhatReplacedIt) {
  const auto refused = complete_options("stub", kSchema, {{"lookahead", "7"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "plugin stub: option 'lookahead' has no effect any more; set depth instead");
}

TEST(CompleteOptions, NamesThePluginWhereAValueIsWrong) {
  EXPECT_EQ(complete_options("stub", kSchema, {{"depth", "0"}}).error().message,
            "plugin stub: option 'depth': '0' is out of range; it takes a whole number from 1 to 16");
}

TEST(CheckSchema, AcceptsEachType) { EXPECT_TRUE(check_schema(kSchema).ok()); }

TEST(CheckSchema, RefusesIncompleteOptions) {
  constexpr std::uint32_t kSize = sizeof(castor_option);
  const castor_option broken[] = {
      {kSize, CASTOR_OPTION_INT, nullptr, "1", 0, 2, nullptr, ""},
      {kSize, CASTOR_OPTION_INT, "", "1", 0, 2, nullptr, ""},
      {kSize, CASTOR_OPTION_INT, "n", nullptr, 0, 2, nullptr, ""},
      {kSize, CASTOR_OPTION_INT, "n", "1", 0, 2, nullptr, nullptr},
      {kSize, CASTOR_OPTION_ENUM, "n", "a", 0, 0, nullptr, ""},
      {kSize, 7, "n", "1", 0, 2, nullptr, ""},
      {kSize - 8, CASTOR_OPTION_INT, "n", "1", 0, 2, nullptr, ""},
  };
  for (const castor_option& option : broken) {
    const castor_option* const schema[] = {&option};
    const auto checked = check_schema(schema);
    ASSERT_FALSE(checked.ok()) << &option - broken;
    EXPECT_EQ(checked.error().kind, ErrorKind::plugin);
  }
}

}  // namespace
}  // namespace castor
