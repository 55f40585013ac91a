// SPDX-License-Identifier: Apache-2.0
#include <castor/io/direct_file.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <castor/io/folder.h>

#include "../../support/run_command.h"
#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;

class DirectFileTest : public ::testing::Test {
 protected:
  static struct stat facts(const DirectFile& file) {
    struct stat result {};
    EXPECT_EQ(fstat(file.fd(), &result), 0);
    return result;
  }
  ScratchFolder folder_;
};

TEST_F(DirectFileTest, AnUnnamedFileLeavesTheFolderEmpty) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  EXPECT_TRUE(folder_.empty());
  EXPECT_EQ(facts(file).st_nlink, 0u);
  EXPECT_EQ(facts(file).st_mode & 07777, 0600u);
  EXPECT_EQ(file.path(), folder_.path() + "/(unnamed file)");
}

TEST_F(DirectFileTest, SaysWhetherTransfersPassThePageCache) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  EXPECT_EQ((fcntl(file.fd(), F_GETFL) & O_DIRECT) != 0, file.direct());
  EXPECT_EQ(file.fallback_reason().empty(), file.direct());
}

TEST_F(DirectFileTest, ADirectFileSaysWhatAlignmentItWants) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  if (!file.direct()) GTEST_SKIP() << file.fallback_reason();
  for (const auto align : {file.memory_align_bytes(), file.offset_align_bytes()}) {
    EXPECT_LE(align, 4096u);
    EXPECT_EQ(align & (align - 1), 0u);
  }
  const TestBuffer out(4096, 1);
  EXPECT_EQ(pwrite(file.fd(), out.data(), file.offset_align_bytes(), 0),
            static_cast<ssize_t>(file.offset_align_bytes()));
}

TEST_F(DirectFileTest, WhereDirectIoIsRefusedTheFileIsBufferedAndSaysWhy) {
  const auto file = DirectFile::open("/proc/self/status", DirectFile::Mode::read).value();  // proc takes no direct I/O
  EXPECT_FALSE(file.direct());
  EXPECT_EQ(file.memory_align_bytes(), 1u);
  EXPECT_EQ(file.fallback_reason().find("the file system of /proc/self does not take direct I/O ("), 0u)
      << file.fallback_reason();
}

TEST_F(DirectFileTest, ANamedFileFollowsTheUmaskAndAnUnnamedOneIsPrivate) {
  const auto before = ::umask(027);
  const auto file = DirectFile::open(folder_.path() + "/new", DirectFile::Mode::write).value();
  const auto unnamed = DirectFile::create_unnamed(folder_.path()).value();
  ::umask(before);
  EXPECT_EQ(facts(file).st_mode & 07777, 0640u);
  EXPECT_EQ(facts(unnamed).st_mode & 07777, 0600u);
}

TEST_F(DirectFileTest, SymbolicLinksAreNotFollowed) {
  std::ofstream(folder_.path() + "/real") << "x";
  fs::create_symlink(folder_.path() + "/real", folder_.path() + "/link");
  const auto refused = DirectFile::open(folder_.path() + "/link", DirectFile::Mode::write);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("symbolic links are not followed"), std::string::npos)
      << refused.error().message;
}

TEST_F(DirectFileTest, AFolderMayBeALink) {
  const ScratchFolder real;
  const std::string link = folder_.path() + "/link";
  fs::create_directory_symlink(real.path(), link);
  EXPECT_TRUE(DirectFile::create_unnamed(link).ok());
  const auto lock = lock_folder(link).value();
  EXPECT_EQ(lock_folder(real.path()).error().message,
            "cannot lock folder " + std::string(real.path()) +
                ": this process keeps a store there; wait until that ends, or name another folder");
}

TEST_F(DirectFileTest, OneFolderCountsOnceWhateverItsNames) {
  const ScratchFolder real, other;
  const std::string folder = real.path(), link = folder_.path() + "/link";
  fs::create_directory_symlink(folder, link);
  EXPECT_TRUE(check_distinct({folder, other.path()}).ok());
  EXPECT_EQ(check_distinct({folder, folder}).error().message,
            "folder " + folder + " is named twice; name each folder once");
  for (const std::string& name : {link, link + "/", folder + "/../" + fs::path(folder).filename().string()})
    EXPECT_EQ(check_distinct({folder, other.path(), name}).error().message,
              "folder " + name + " is named twice, the other time as " + folder + "; name each folder once");
}

TEST_F(DirectFileTest, AWriterIsAlone) {
  const std::string path = folder_.path() + "/file";
  const std::string in_use = ": this process has it open; wait until that ends or name another file";
  {
    const auto owner = DirectFile::open(path, DirectFile::Mode::write).value();
    EXPECT_EQ(DirectFile::open(path, DirectFile::Mode::write).error().message,
              "cannot open " + path + " to write" + in_use);
    EXPECT_EQ(DirectFile::open(path, DirectFile::Mode::read).error().message, "cannot open " + path + in_use);
  }
  EXPECT_TRUE(DirectFile::open(path, DirectFile::Mode::write).ok());
}

TEST_F(DirectFileTest, ReadersShareAFileAndKeepWritersOut) {
  const std::string path = folder_.path() + "/file";
  { const auto made = DirectFile::open(path, DirectFile::Mode::write).value(); }
  const auto one = DirectFile::open(path, DirectFile::Mode::read).value();
  const auto other = DirectFile::open(path, DirectFile::Mode::read).value();
  EXPECT_FALSE(DirectFile::open(path, DirectFile::Mode::write).ok());
}

TEST_F(DirectFileTest, AnotherProcessIsToldWhoHasTheFile) {
  const std::string path = folder_.path() + "/file";
  const auto owner = DirectFile::open(path, DirectFile::Mode::write).value();
  const auto outcome = run_command(std::string(CASTOR_STRIPE_CHILD) + " open " + path);
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.output, "cannot open " + path + " to write: process " + std::to_string(getpid()) +
                                " has it open; wait until that ends or name another file\n");
}

TEST_F(DirectFileTest, AFolderHasOneOwner) {
  {
    const auto owner = lock_folder(folder_.path()).value();
    EXPECT_EQ(lock_folder(folder_.path()).error().message,
              "cannot lock folder " + folder_.path() +
                  ": this process keeps a store there; wait until that ends, or name another folder");
    EXPECT_TRUE(DirectFile::create_unnamed(folder_.path()).ok());
  }
  EXPECT_TRUE(lock_folder(folder_.path()).ok());
  EXPECT_EQ(lock_folder(folder_.path() + "/none").error().message,
            "cannot lock folder " + folder_.path() + "/none: No such file or directory; create it (mkdir -p " +
                folder_.path() + "/none) or name another");
}

TEST_F(DirectFileTest, AMissingFileIsNotReadable) {
  const auto refused = DirectFile::open(folder_.path() + "/none", DirectFile::Mode::read);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "cannot open " + folder_.path() + "/none: there is no such file; name one that exists");
}

TEST_F(DirectFileTest, AMissingFolderIsNamedWithTheWayOut) {
  const std::string none = folder_.path() + "/none";
  const auto refused = DirectFile::create_unnamed(none);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message, "cannot create a file in folder " + none +
                                         ": No such file or directory; create it (mkdir -p " + none +
                                         ") or name another");
}

TEST_F(DirectFileTest, AFileIsNoFolder) {
  const std::string path = folder_.path() + "/file";
  std::ofstream(path) << "x";
  const auto refused = DirectFile::create_unnamed(path);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "cannot create a file in folder " + path + ": Not a directory; name a folder");
}

TEST_F(DirectFileTest, ReservedRoomIsTakenAndPunchedRoomIsGivenBack) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  ASSERT_TRUE(file.reserve(0, 8 * kMiB).ok());
  const auto reserved = facts(file).st_blocks;
  if (reserved == 0) GTEST_SKIP() << "the file system of " << folder_.path() << " sets no room aside";
  EXPECT_GE(reserved * 512, static_cast<blkcnt_t>(8 * kMiB));
  ASSERT_TRUE(file.punch(4 * kMiB, 4 * kMiB).ok());
  EXPECT_LE(facts(file).st_blocks * 512, static_cast<blkcnt_t>(4 * kMiB + 64 * kKiB));
  EXPECT_EQ(facts(file).st_size, static_cast<off_t>(8 * kMiB));
}

TEST_F(DirectFileTest, MoreRoomThanAFileCanHaveIsRefusedWithTheFigures) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  const auto refused = file.reserve(0, 1ull << 60);
  if (refused.ok()) GTEST_SKIP() << "the file system of " << folder_.path() << " sets no room aside";
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message.find("cannot set 1048576 TiB aside at offset 0 of " + file.path() + ", where "), 0u)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(" are free: "), std::string::npos) << refused.error().message;
}

TEST_F(DirectFileTest, IsCutWhereItIsLongerAndNeverMadeLonger) {
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  ASSERT_TRUE(file.reserve(0, kMiB).ok());
  EXPECT_EQ(file.size_bytes().value(), kMiB);
  ASSERT_TRUE(file.cut(4096).ok());
  ASSERT_TRUE(file.cut(8192).ok());
  EXPECT_EQ(file.size_bytes().value(), 4096u);
}

TEST_F(DirectFileTest, ProbingAFolderTriesIt) {
  const auto probe = probe_folder(folder_.path()).value();
  const auto file = DirectFile::create_unnamed(folder_.path()).value();
  EXPECT_TRUE(probe.writable);
  EXPECT_EQ(probe.direct, file.direct());
  EXPECT_EQ(probe.unnamed, file.never_named());
  EXPECT_EQ(probe.detail, file.fallback_reason());
  EXPECT_GT(probe.free_bytes, 0u);
  EXPECT_TRUE(folder_.empty());
}

TEST_F(DirectFileTest, ProbingWhatIsNoFolderIsAnError) {
  EXPECT_NE(probe_folder(folder_.path() + "/none").error().message.find("cannot look at folder"), std::string::npos);
  EXPECT_NE(probe_folder("/dev/null").error().message.find("Not a directory; name a folder"), std::string::npos);
}

TEST_F(DirectFileTest, ProbingAFolderThatTakesNoFilesIsAnAnswer) {
  const auto probe = probe_folder("/proc").value();
  EXPECT_FALSE(probe.writable);
  EXPECT_NE(probe.detail.find("cannot create a file in folder /proc: its file system takes no new files; name a folder "
                              "on another"),
            std::string::npos)
      << probe.detail;
}

}  // namespace
}  // namespace castor::test
