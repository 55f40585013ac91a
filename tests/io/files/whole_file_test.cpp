// SPDX-License-Identifier: Apache-2.0
#include <castor/io/file_beside.h>
#include <castor/io/whole_file.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "../../support/scratch_folder.h"

namespace castor {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WholeFile : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + '/' + name; }
  std::size_t n_files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  const test::ScratchFolder folder_;
};

TEST_F(WholeFile, TakesThePlaceOfAnOldOne) {
  ASSERT_TRUE(write_whole_file(path("a"), "old").ok());
  ASSERT_TRUE(write_whole_file(path("a"), "new").ok());
  EXPECT_EQ(text_of(path("a")), "new");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WholeFile, ACheckLeavesNothingBehind) {
  std::ofstream(path("a")) << "old";
  EXPECT_TRUE(check_whole_file(path("a")).ok());
  EXPECT_TRUE(check_whole_file(path("b")).ok());
  EXPECT_EQ(text_of(path("a")), "old");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WholeFile, AWriteThatIsCutShortLeavesTheOldOne) {
  ASSERT_TRUE(write_whole_file(path("a"), "old").ok());
  rlimit before = {}, small = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before, small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto refused = write_whole_file(path("a"), std::string(10'000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message.find("cannot write " + path("a") + ": File too large; "), 0u)
      << refused.error().message;
  EXPECT_EQ(text_of(path("a")), "old");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(WholeFile, FollowsLinksToAFileThatIsThereOrNot) {
  fs::create_directory(path("x"));
  fs::create_symlink("x/real", path("near"));
  fs::create_symlink(path("near"), path("far"));
  for (const char* text : {"first", "second"}) {
    ASSERT_TRUE(write_whole_file(path("far"), text).ok());
    EXPECT_EQ(text_of(path("x/real")), text);
  }
  EXPECT_TRUE(fs::is_symlink(path("far")));
  EXPECT_EQ(followed(path("far")), path("x/real"));
  EXPECT_EQ(followed(path("none")), path("none"));
}

TEST_F(WholeFile, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(write_whole_file(path("pipe"), "x").error().message,
            "cannot write " + path("pipe") + ": it is no regular file; name a file");
  EXPECT_EQ(check_whole_file(folder_.path()).error().message,
            "cannot write " + folder_.path() + ": it is a folder; name a file");
  EXPECT_EQ(check_whole_file(path("none/a"))
                .error()
                .message.find("cannot write " + path("none/a") + ": No such file or directory; create it (mkdir -p " +
                              path("none")),
            0u);
}

}  // namespace
}  // namespace castor
