// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/text.h>

#include <gtest/gtest.h>

namespace castor {
namespace {

using Parts = std::vector<std::string>;

TEST(Split, CutsAtEverySeparator) {
  EXPECT_EQ(split("auto|cpu|cuda", '|'), (Parts{"auto", "cpu", "cuda"}));
  EXPECT_EQ(split("auto", '|'), Parts{"auto"});
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_EQ(split("", ','), Parts{""});
  EXPECT_EQ(split(",a,,b,", ','), (Parts{"", "a", "", "b", ""}));
}

TEST(Join, SeparatesAllButTheLastByCommas) {
  EXPECT_EQ(join({}, " or "), "");
  EXPECT_EQ(join(Parts{"a"}, " or "), "a");
  EXPECT_EQ(join(Parts{"a", "b"}, " or "), "a or b");
  EXPECT_EQ(join(Parts{"gemini", "minimal_c", "torch_ddp"}, " and "), "gemini, minimal_c and torch_ddp");
}

TEST(Join, TakesAnySeparatorAndUndoesASplit) {
  EXPECT_EQ(join(Parts{"a", "b", "c"}, "|", "|"), "a|b|c");
  for (const char* text : {"", "a", ",", ",a,,b,"}) EXPECT_EQ(join(split(text, ','), ",", ","), text);
}

TEST(List, ACommaOrBackslashWithinAPartHasABackslashBeforeIt) {
  EXPECT_EQ(split_list("/a,/b"), (Parts{"/a", "/b"}));
  EXPECT_EQ(split_list(R"(/a\,b,/c\\,/d\e)"), (Parts{"/a,b", R"(/c\)", R"(/d\e)"}));
  EXPECT_EQ(split_list(R"(a\)"), Parts{R"(a\)"}) << "the last backslash stands for itself";
  EXPECT_EQ(join_list(Parts{"/a,b", R"(/c\)"}), R"(/a\,b,/c\\)");
}

TEST(List, EveryListComesBack) {
  const char letters[] = {'a', ',', '\\'};
  for (unsigned code = 0; code < 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    Parts parts(2);
    for (unsigned i = 0, rest = code; i < 6; ++i, rest /= 3) parts[i / 3] += letters[rest % 3];
    EXPECT_EQ(split_list(join_list(parts)), parts) << code;
  }
}

TEST(AsUtf8, KeepsCharactersAndSpellsOtherBytes) {
  EXPECT_EQ(as_utf8("plain, \xc3\xbc, \xe2\x82\xac, \xf0\x9f\xa6\xab"),
            "plain, \xc3\xbc, \xe2\x82\xac, \xf0\x9f\xa6\xab");
  EXPECT_EQ(as_utf8("bad\xff.txt"), "bad\\xff.txt");
  EXPECT_EQ(as_utf8("\xc3"), "\\xc3") << "cut short";
  EXPECT_EQ(as_utf8("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(as_utf8("\xc0\xaf \xe0\x80\xaf"), "\\xc0\\xaf \\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(as_utf8("\xed\xa0\x80 \xf4\x90\x80\x80"), "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80") << "no characters";
}

}  // namespace
}  // namespace castor
