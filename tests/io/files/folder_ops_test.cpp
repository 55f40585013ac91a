// SPDX-License-Identifier: Apache-2.0
#include "files/folder_ops.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../../support/drives/faulty_folder_ops.h"
#include "../../support/file_text.h"
#include "../../support/run_command.h"
#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;
const std::string kFolderChild = CASTOR_FOLDER_CHILD;  // the path of folder_child, from Meson

class FolderOpsTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  void expect_error(const Result<void>& outcome, const std::string& message) const {
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().kind, ErrorKind::io);
    EXPECT_EQ(outcome.error().message, message);
  }

  ScratchFolder folder_;
  SystemFolderOps ops_;
};

TEST_F(FolderOpsTest, AFileHoldsWhatWasWrittenAndNothingElse) {
  const std::string large(3 << 20, 'x');
  for (const std::string& text : {std::string("new"), large, std::string("old"), std::string()}) {
    ASSERT_TRUE(ops_.write_file(path("a"), bytes_of(text)).ok());
    EXPECT_EQ(text_of(path("a")), text);
    const auto read = ops_.read_file(path("a"), text.size()).value();
    ASSERT_TRUE(read.has_value());
    const auto wanted = bytes_of(text);
    EXPECT_TRUE(std::equal(read->begin(), read->end(), wanted.begin(), wanted.end()));
  }
  ASSERT_TRUE(ops_.sync_file(path("a")).ok());
  ASSERT_TRUE(ops_.sync_folder(folder_.path()).ok());
}

TEST_F(FolderOpsTest, ANewFileFollowsTheUmask) {
  const auto before = ::umask(026);
  const auto written = ops_.write_file(path("a"), {});
  ::umask(before);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(static_cast<unsigned>(fs::status(path("a")).permissions()), 0640u);
}

TEST_F(FolderOpsTest, AMissingFileIsNothingToReadAndNothingToRemove) {
  EXPECT_FALSE(ops_.read_file(path("none"), 10).value().has_value());
  EXPECT_TRUE(ops_.remove(path("none")).ok());
  expect_error(ops_.sync_file(path("none")), "cannot open " + path("none") +
                                                 ": No such file or directory; create it (mkdir -p " + folder_.path() +
                                                 ") or name another");
}

TEST_F(FolderOpsTest, MoreBytesThanExpectedAreAnError) {
  ASSERT_TRUE(ops_.write_file(path("a"), bytes_of("12345")).ok());
  const auto read = ops_.read_file(path("a"), 4);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "cannot read " + path("a") +
                                      ": it has 5 bytes, at most 4 were expected; move it away or name another folder");
}

TEST_F(FolderOpsTest, RenamingTakesThePlaceOfWhatWasThere) {
  ASSERT_TRUE(ops_.write_file(path("a"), bytes_of("A")).ok());
  ASSERT_TRUE(ops_.write_file(path("b"), bytes_of("B")).ok());
  ASSERT_TRUE(ops_.rename(path("b"), path("a")).ok());
  EXPECT_EQ(text_of(path("a")), "B");
  EXPECT_EQ(ops_.list(folder_.path()).value(), std::vector<std::string>{"a"});
  expect_error(ops_.rename(path("b"), path("c")), "cannot give " + path("b") + " the name " + path("c") +
                                                      ": No such file or directory; create it (mkdir -p " +
                                                      folder_.path() + ") or name another");
}

TEST_F(FolderOpsTest, NamesAreListedInOrder) {
  EXPECT_TRUE(ops_.list(folder_.path()).value().empty());
  for (const char* name : {"c", ".a", "b"}) ASSERT_TRUE(ops_.write_file(path(name), {}).ok());
  EXPECT_EQ(ops_.list(folder_.path()).value(), (std::vector<std::string>{".a", "b", "c"}));
  ASSERT_TRUE(ops_.remove(path("b")).ok());
  EXPECT_EQ(ops_.list(folder_.path()).value(), (std::vector<std::string>{".a", "c"}));
  EXPECT_EQ(ops_.list(path("none")).error().message, "cannot look into folder " + path("none") +
                                                         ": No such file or directory; create it (mkdir -p " +
                                                         path("none") + ") or name another");
}

TEST_F(FolderOpsTest, SymbolicLinksAreNotFollowed) {
  ASSERT_TRUE(ops_.write_file(path("real"), bytes_of("old")).ok());
  fs::create_symlink(path("real"), path("link"));
  const std::string reason =
      path("link") +
      ": Too many levels of symbolic links; symbolic links are not followed: name the path that it points to";
  expect_error(ops_.write_file(path("link"), bytes_of("new")), "cannot create " + reason);
  expect_error(ops_.sync_file(path("link")), "cannot open " + reason);
  EXPECT_EQ(ops_.read_file(path("link"), 10).error().message, "cannot open " + reason);
  EXPECT_EQ(text_of(path("real")), "old");
}

TEST_F(FolderOpsTest, ALinkInThePlaceOfTheTemporaryFileIsRefused) {
  ASSERT_TRUE(ops_.write_file(path("real"), bytes_of("old")).ok());
  fs::create_symlink(path("real"), path("a.tmp"));
  EXPECT_FALSE(replace_file(ops_, folder_.path(), "a", bytes_of("new")).ok());
  EXPECT_EQ(text_of(path("real")), "old");
  EXPECT_TRUE(replace_file(ops_, folder_.path(), "a", bytes_of("new")).ok());  // the earlier call removed the link
  EXPECT_EQ(text_of(path("a")), "new");
  EXPECT_EQ(text_of(path("real")), "old");
}

TEST_F(FolderOpsTest, AFolderMayBeALink) {
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("link"));
  EXPECT_TRUE(replace_file(ops_, path("link"), "a", bytes_of("new")).ok());
  EXPECT_EQ(text_of(path("real/a")), "new");
}

TEST_F(FolderOpsTest, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ops_.write_file(path("pipe"), {}).ok());
  EXPECT_EQ(ops_.read_file(path("pipe"), 10).error().message,
            "cannot use " + path("pipe") + ": it is no regular file; move it away or name another folder");
  EXPECT_FALSE(ops_.read_file(folder_.path(), 10).ok());
  EXPECT_FALSE(ops_.sync_folder(path("pipe")).ok());
}

TEST_F(FolderOpsTest, AFolderThatWentAwayIsAnError) {
  fs::create_directory(path("gone"));
  ASSERT_TRUE(replace_file(ops_, path("gone"), "a", bytes_of("x")).ok());
  fs::remove_all(path("gone"));
  const auto refused = replace_file(ops_, path("gone"), "a", bytes_of("y"));
  expect_error(refused, "cannot create " + path("gone/a.tmp") + ": No such file or directory; create it (mkdir -p " +
                            path("gone") + ") or name another");
}

TEST_F(FolderOpsTest, ReplacingLeavesTheNewBytesAndNoTemporaryFile) {
  for (const std::string text : {"first", "second, longer", "3"}) {
    ASSERT_TRUE(replace_file(ops_, folder_.path(), "a", bytes_of(text)).ok());
    EXPECT_EQ(text_of(path("a")), text);
    EXPECT_EQ(ops_.list(folder_.path()).value(), std::vector<std::string>{"a"});
  }
}

TEST_F(FolderOpsTest, WhateverStepOfReplacingFailsTheFileIsWhole) {
  const std::string old_text(1000, 'o'), new_text(2000, 'n');
  std::uint64_t n_kept = 0, nth = 1;
  for (;; ++nth) {
    ASSERT_TRUE(replace_file(ops_, folder_.path(), "a", bytes_of(old_text)).ok());
    FaultyFolderOps faulty(ops_, nth, EIO);
    const auto outcome = replace_file(faulty, folder_.path(), "a", bytes_of(new_text));
    if (!faulty.reached()) {
      EXPECT_TRUE(outcome.ok());
      break;
    }
    ASSERT_FALSE(outcome.ok()) << "call " << nth;
    EXPECT_EQ(outcome.error().kind, ErrorKind::io);
    EXPECT_TRUE(text_of(path("a")) == old_text || text_of(path("a")) == new_text) << "call " << nth;
    if (text_of(path("a")) == old_text) ++n_kept;
    EXPECT_FALSE(fs::exists(path("a.tmp"))) << "call " << nth;
  }
  EXPECT_EQ(nth, 5u);     // write, sync, rename, sync of the folder; there is no fifth call
  EXPECT_EQ(n_kept, 3u);  // only a failure of the last leaves the new bytes
}

TEST_F(FolderOpsTest, AFullFileSystemKeepsTheOldFile) {
  if (run_command("unshare -Urm true").exit_code != 0) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto outcome =
      run_command("unshare -Urm sh -c 'mount -t tmpfs -o size=256k tmpfs " + folder_.path() + " || exit 77; exec " +
                  kFolderChild + " replace " + folder_.path() + " a 102400' || exit $?");
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  // 256 KiB less the 100 KiB of the old file leave 156 KiB: 159744 bytes of 204800.
  EXPECT_EQ(outcome.output, "cannot write byte 159744 of 204800 of " + path("a.tmp") +
                                ": No space left on device; free space there or name a folder on another drive with "
                                "`nvme`\n102400 bytes\na\n");
}

TEST_F(FolderOpsTest, AFileThatMayNotGrowKeepsTheOldOne) {
  const auto outcome = run_command(kFolderChild + " limit 150000 replace " + folder_.path() + " a 100000");
  if (outcome.exit_code == 77) GTEST_SKIP() << "the limit on file sizes cannot be set here";
  EXPECT_EQ(outcome.output,
            "cannot write byte 150000 of 200000 of " + path("a.tmp") +
                ": File too large; raise the limit on file sizes (ulimit -f) or name a folder on a file "
                "system with larger files\n100000 bytes\na\n");
}

}  // namespace
}  // namespace castor::test
