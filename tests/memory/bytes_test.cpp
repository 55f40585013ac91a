// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/bytes.h>

#include <gtest/gtest.h>

#include <limits>

namespace castor {
namespace {

TEST(ParseBytes, ReadsEveryDocumentedForm) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("4096B").value(), 4096u);
  EXPECT_EQ(parse_bytes("512MiB").value(), 536'870'912u);
  EXPECT_EQ(parse_bytes("8GiB").value(), 8'589'934'592u);
  EXPECT_EQ(parse_bytes("1.5GiB").value(), 1'610'612'736u);
  EXPECT_EQ(parse_bytes("3K").value(), 3'072u);
  EXPECT_EQ(parse_bytes("2T").value(), 2'199'023'255'552u);
  EXPECT_EQ(parse_bytes("0.5KiB").value(), 512u);
  EXPECT_EQ(parse_bytes("1.5 KiB").value(), 1536u) << "as messages write it";
}

class ParseBytesRefuses : public ::testing::TestWithParam<const char*> {};

TEST_P(ParseBytesRefuses, AndQuotesTheText) {
  const auto parsed = parse_bytes(GetParam());
  ASSERT_FALSE(parsed.ok()) << "read as " << parsed.value();
  EXPECT_EQ(parsed.error().kind, ErrorKind::usage);
  EXPECT_NE(parsed.error().message.find("'" + std::string(GetParam()) + "'"), std::string::npos)
      << parsed.error().message;
}

INSTANTIATE_TEST_SUITE_P(Texts, ParseBytesRefuses,
                         ::testing::Values("", "GiB", "-1", "-0", "-1GiB", "8GB", "8  GiB", "8 ", " 8GiB", "8GiB ", "8gib",
                                           "1e3", "0x10", "nan", "inf", "8GiBs", "1.2.3", "9000000000T",
                                           "99999999999999999999"));

TEST(FormatBytes, KeepsThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(3072), "3.00 KiB");
  EXPECT_EQ(format_bytes(53'687'091), "51.2 MiB");
  EXPECT_EQ(format_bytes(512 * kMiB), "512 MiB");
  EXPECT_EQ(format_bytes(2304 * kMiB), "2.25 GiB");
  EXPECT_EQ(format_bytes(5000 * 1024 * kGiB), "5000 TiB");
}

TEST(FormatBytes, NeverRoundsUpToAThousandTwentyFour) {
  EXPECT_EQ(format_bytes(kMiB - 1), "1.00 MiB");
  EXPECT_EQ(format_bytes(kGiB - 1), "1.00 GiB");
}

TEST(AlignUp, FindsTheNextMultiple) {
  EXPECT_EQ(align_up(0, 512), 0u);
  EXPECT_EQ(align_up(1, 512), 512u);
  EXPECT_EQ(align_up(512, 512), 512u);
  EXPECT_EQ(align_up(513, 512), 1024u);
  EXPECT_EQ(align_up(10, 3), 12u);
}

TEST(FormatBytesUp, IsEnoughForWhatABudgetIsRaisedTo) {
  EXPECT_EQ(format_bytes_up(0), "0 B");
  EXPECT_EQ(format_bytes_up(512 * kMiB), "512 MiB");
  EXPECT_EQ(format_bytes_up(512 * kMiB + 1), "513 MiB");
  EXPECT_EQ(format_bytes_up(3 * kKiB + 1), "3.01 KiB");
  for (std::uint64_t n_bytes = 1; n_bytes < std::uint64_t{1} << 50; n_bytes = n_bytes * 7 / 5 + 1) {
    std::string text = format_bytes_up(n_bytes);
    text.erase(text.find(' '), 1);
    EXPECT_GE(parse_bytes(text).value(), n_bytes) << text;
  }
}

}  // namespace
}  // namespace castor
