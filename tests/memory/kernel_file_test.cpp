// SPDX-License-Identifier: Apache-2.0
#include "host/kernel_file.h"

#include <gtest/gtest.h>

#include "../support/fake_machine.h"

namespace castor {
namespace {

class KernelFile : public ::testing::Test {
 protected:
  std::optional<std::uint64_t> number(const std::string& text, std::size_t index = 0) const {
    machine_.say("file", text);
    return number_in(machine_.root() / "file", index);
  }
  std::optional<std::uint64_t> field(const std::string& text, std::string_view name) const {
    machine_.say("file", text);
    return field_in(machine_.root() / "file", name);
  }

  test::FakeMachine machine_;
};

TEST_F(KernelFile, AWordThatIsANumberIsRead) {
  EXPECT_EQ(number("42\n"), 42u);
  EXPECT_EQ(number("50000 100000\n", 1), 100000u);
  EXPECT_EQ(number("18446744073709551615"), 18446744073709551615u);
}

TEST_F(KernelFile, OtherWordsAreNone) {
  for (const char* text : {"", "max\n", "-1\n", "12kB\n", "1e3\n", "18446744073709551616\n"})
    EXPECT_EQ(number(text), std::nullopt) << text;
  EXPECT_EQ(number("50000\n", 1), std::nullopt);
}

TEST_F(KernelFile, AFieldIsFoundByItsWholeName) {
  EXPECT_EQ(field("inactive_files 1\ninactive_file 7\n", "inactive_file"), 7u);
  EXPECT_EQ(field("Max data size             4096                 unlimited            bytes\n", "Max data size"),
            4096u);
}

TEST_F(KernelFile, AFieldWithoutANumberIsNone) {
  for (const char* text : {"", "inactive_file", "inactive_file \n", "inactive_file x\n", "other 7\n"})
    EXPECT_EQ(field(text, "inactive_file"), std::nullopt) << text;
}

TEST_F(KernelFile, AMissingFileHasNothing) {
  EXPECT_EQ(number_in(machine_.root() / "none"), std::nullopt);
  EXPECT_EQ(field_in(machine_.root() / "none", "name"), std::nullopt);
  EXPECT_EQ(number_in(machine_.root()), std::nullopt);
}

}  // namespace
}  // namespace castor
