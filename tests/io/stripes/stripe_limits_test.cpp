// SPDX-License-Identifier: Apache-2.0
// File systems that are full, or lack direct I/O or fallocate, each in a child process (stripe_child).
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "../../support/run_command.h"
#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

const std::string kStripeChild = CASTOR_STRIPE_CHILD;  // the path of stripe_child, from Meson

class StripeLimits : public ::testing::Test {
 protected:
  StripeLimits() {
    std::filesystem::create_directory(a_);
    std::filesystem::create_directory(b_);
  }
  void SetUp() override {
    if (run_command("unshare -Urm true").exit_code != 0) GTEST_SKIP() << "unshare -Urm is not allowed here";
  }
  /// Runs `command` after `mounts`, in name spaces of its own.
  static CommandOutcome run_with(const std::string& mounts, const std::string& command) {
    return run_command("unshare -Urm sh -c '(" + mounts + ") || exit 77; exec " + command + "'");
  }
  static std::string tmpfs(const std::string& folder, const std::string& size) {
    return "mount -t tmpfs -o size=" + size + " tmpfs " + folder;
  }

  ScratchFolder folder_;
  const std::string a_ = folder_.path() + "/a", b_ = folder_.path() + "/b";
};

TEST_F(StripeLimits, AFullFolderLeavesItsShareToTheOthers) {
  const auto outcome =
      run_with(tmpfs(a_, "4m") + " && " + tmpfs(b_, "8m"), kStripeChild + " fill 1024 " + a_ + " " + b_);
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  std::size_t n_in_a = 0, n_in_b = 0;
  for (std::size_t at = 0; (at = outcome.output.find("1024 0 KiB", at)) != std::string::npos; ++at) ++n_in_a;
  for (std::size_t at = 0; (at = outcome.output.find("0 1024 KiB", at)) != std::string::npos; ++at) ++n_in_b;
  EXPECT_EQ(n_in_a, 4u) << outcome.output;
  EXPECT_EQ(n_in_b, 8u) << outcome.output;
  EXPECT_TRUE(contains(outcome, "key 12 needs 1.00 MiB and no folder has room for it: cannot set 1.00 MiB aside at "))
      << outcome.output;
  for (const auto& folder : {a_, b_})
    EXPECT_TRUE(contains(outcome, folder + "/(unnamed file), where 0 B are free: No space left on device; free space"))
        << outcome.output;
}

TEST_F(StripeLimits, AValueIsSplitAsRoomDemands) {
  const auto outcome =
      run_with(tmpfs(a_, "4m") + " && " + tmpfs(b_, "8m"), kStripeChild + " fill 11264 " + a_ + " " + b_);
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.output.find("4096 7168 KiB\n"), 0u) << outcome.output;
  EXPECT_TRUE(contains(outcome, "key 1 needs 11.0 MiB and no folder has room for it")) << outcome.output;
}

TEST_F(StripeLimits, ALimitOnFileSizesIsAnErrorAndNoSignal) {
  const auto outcome = run_command(kStripeChild + " limit 3145728 fill 1024 " + a_);
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  EXPECT_EQ(outcome.output.find("1024 KiB\n1024 KiB\n1024 KiB\nkey 3 needs 1.00 MiB"), 0u) << outcome.output;
  EXPECT_TRUE(contains(outcome, "File too large; raise the limit on file sizes (ulimit -f)")) << outcome.output;
}

TEST_F(StripeLimits, WithoutDirectIoAndFallocateFilesWorkAllTheSame) {
  const auto outcome = run_with("mount -t ramfs ramfs " + a_, kStripeChild + " buffered " + a_);
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.output.find("the file system of " + a_ + " does not take direct I/O (O_DIRECT: "), 0u)
      << outcome.output;
  EXPECT_TRUE(contains(outcome, "\nok\n")) << outcome.output;
}

}  // namespace
}  // namespace castor::test
