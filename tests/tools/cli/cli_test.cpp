// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <gtest/gtest.h>

namespace castor::cli {
namespace {

CommandSyntax syntax() {
  CommandSyntax syntax("castor cut FILE [options]", "Cuts.");
  syntax.options.add_options()("file", boost::program_options::value<std::string>(), "the file")(
      "size", boost::program_options::value<std::string>()->default_value("4KiB")->value_name("SIZE"), "how much");
  syntax.positional = {"file"};
  return syntax;
}

std::string message_of(const Arguments& arguments) {
  const auto values = parse(syntax(), arguments);
  if (values) return "";
  EXPECT_EQ(values.error().kind, ErrorKind::usage);
  return values.error().message;
}

TEST(Parse, ReadsOptionsAndPositions) {
  const auto values = parse(syntax(), {"log.txt", "--size", "2MiB", "--json"}).value();
  EXPECT_EQ(text_of(values, "file"), "log.txt");
  EXPECT_EQ(bytes_of(values, "size").value(), std::optional<std::uint64_t>(2097152));
  EXPECT_EQ(values.count("json"), 1u);
}

TEST(Parse, DefaultsApply) {
  EXPECT_EQ(bytes_of(parse(syntax(), {}).value(), "size").value(), std::optional<std::uint64_t>(4096));
}

TEST(Parse, UnknownOptionComesWithTheNearest) {
  EXPECT_EQ(message_of({"--sise", "4"}), "unknown option '--sise'; did you mean '--size'?");
}

TEST(Parse, UnknownOptionWithAValueIsNamedWithoutIt) {
  EXPECT_EQ(message_of({"--sise=4"}), "unknown option '--sise'; did you mean '--size'?");
}

TEST(Parse, BeginningsAreNotGuessed) { EXPECT_NE(message_of({"--siz", "4"}), ""); }

TEST(Parse, StrangeOptionPointsToHelp) {
  EXPECT_EQ(message_of({"--frobnicate"}), "unknown option '--frobnicate'; --help lists the options");
}

TEST(Parse, TooManyPositionsShowTheUsage) {
  EXPECT_EQ(message_of({"a", "b"}), "too many arguments; usage: castor cut FILE [options]");
}

TEST(Parse, MissingValueIsNamed) { EXPECT_NE(message_of({"--size"}).find("--size"), std::string::npos); }

TEST(Parse, GivenTwiceIsRefused) { EXPECT_NE(message_of({"--size", "1", "--size", "2"}), ""); }

TEST(Parse, SizeThatIsNoneNamesItsOption) {
  const auto n_bytes = bytes_of(parse(syntax(), {"--size", "2 apples"}).value(), "size");
  ASSERT_FALSE(n_bytes.ok());
  EXPECT_EQ(n_bytes.error().message.rfind("--size: '2 apples' is not a size", 0), 0u) << n_bytes.error().message;
}

TEST(CommandSyntax, HelpShowsDefaultsAndHidesPositions) {
  const std::string help = syntax().help();
  EXPECT_NE(help.find("usage: castor cut FILE"), std::string::npos);
  EXPECT_NE(help.find("--size SIZE (=4KiB)"), std::string::npos) << help;
  EXPECT_EQ(help.find("--file"), std::string::npos);
}

TEST(Split, KeepsEmptyPartsInside) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_TRUE(split("", ',').empty());
}

}  // namespace
}  // namespace castor::cli
