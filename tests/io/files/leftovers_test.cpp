// SPDX-License-Identifier: Apache-2.0
#include "files/leftovers.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <castor/io/direct_file.h>
#include <castor/io/folder.h>

#include "../../support/run_command.h"
#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

namespace fs = std::filesystem;

class LeftoversTest : public ::testing::Test {
 protected:
  void write(const std::string& name) const { std::ofstream(path(name)) << "x"; }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.insert(entry.path().filename());
    return found;
  }

  ScratchFolder folder_;
};

TEST_F(LeftoversTest, RemovesWhatDeadRunsLeft) {
  std::vector<std::byte> bytes(8192);
  {
    const auto data = DirectFile::open(path("castor-0.data"), DirectFile::Mode::write).value();
    data.write_bytes(0, {bytes.data(), bytes.size()}).value();
    ASSERT_EQ(fsync(data.fd()), 0);  // so that the file system has allocated its blocks
  }
  write("castor-.data");
  write("castor.manifest.tmp");
  write(".castor-a1B2c3");
  const auto removed = remove_leftovers(folder_.path(), {}).value();
  EXPECT_EQ(removed.n_files, 4u);
  EXPECT_GE(removed.n_bytes, 8192u);
  EXPECT_TRUE(folder_.empty());
}

TEST_F(LeftoversTest, KeepsWhatItIsToldToAndWhatIsNotOurs) {
  const std::set<std::string> all = {"castor-1.data",   "castor.manifest", "castor-1.data.bak", "castor.data",
                                     ".castor-a1B2c",   "model.data",      ".castor-a1B2c34",   ".castor-a1B2_3",
                                     "mycastor-1.data", "castor-dir.data"};
  for (const auto& name : all)
    if (name != "castor-dir.data") write(name);
  fs::create_directory(path("castor-dir.data"));
  const auto removed = remove_leftovers(folder_.path(), {"castor-1.data"}).value();
  EXPECT_EQ(removed.n_files, 0u);
  EXPECT_EQ(names(), all);
}

TEST_F(LeftoversTest, TheFilesOfALivingOwnerStay) {
  write("castor-dead.data");
  const auto data = DirectFile::open(path("castor-live.data"), DirectFile::Mode::write).value();
  const auto unnamed = DirectFile::open(path(".castor-abcdef"), DirectFile::Mode::write).value();
  const std::set<std::string> living = {"castor-live.data", ".castor-abcdef"};
  const auto outcome = run_command(std::string(CASTOR_STRIPE_CHILD) + " leftovers " + folder_.path());
  EXPECT_EQ(outcome.output, "1\n");
  EXPECT_EQ(names(), living);
  EXPECT_EQ(remove_leftovers(folder_.path(), {}).value().n_files, 0u);  // nor are this process's own
  EXPECT_EQ(names(), living);
}

TEST_F(LeftoversTest, AStrangerRemovesOnlyWhatNoManifestNames) {
  write("castor-0.data");
  write("castor.manifest.tmp");
  write(".castor-abcdef");
  EXPECT_EQ(remove_unnamed_leftovers(folder_.path()).value().n_files, 1u);
  EXPECT_EQ(names(), (std::set<std::string>{"castor-0.data", "castor.manifest.tmp"}));
}

TEST_F(LeftoversTest, LinksAreLeftAlone) {
  write("treasure");
  fs::create_symlink(path("treasure"), path("castor-0.data"));
  ASSERT_EQ(mkfifo(path("castor-1.data").c_str(), 0600), 0);  // nor does opening it wait for a writer
  EXPECT_EQ(remove_leftovers(folder_.path(), {}).value().n_files, 0u);
  EXPECT_EQ(names(), (std::set<std::string>{"treasure", "castor-0.data", "castor-1.data"}));
  fs::remove(path("castor-0.data"));
}

TEST_F(LeftoversTest, AFolderThatCannotBeListedIsAnError) {
  const auto refused = remove_leftovers(path("none"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message.find("cannot look for leftovers in folder " + path("none") + ": No such file"), 0u);
}

}  // namespace
}  // namespace castor::test
