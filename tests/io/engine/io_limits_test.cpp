// SPDX-License-Identifier: Apache-2.0
// Refusals of the machine, each in a child process (io_child), so that no test depends on another's limits.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "../../support/run_command.h"
#include "../../support/scratch_folder.h"

namespace castor::test {
namespace {

const std::string kIoChild = CASTOR_IO_CHILD;                 // the path of io_child, from Meson
const std::string kWithoutIoUring = CASTOR_WITHOUT_IO_URING;  // … and of without_io_uring

class IoLimits : public ::testing::Test {
 protected:
  /// Runs `command` with a tmpfs of `size` mounted at the scratch folder, in name spaces of its own. Skips where the
  /// system refuses those.
  CommandOutcome run_on_tmpfs(const std::string& size, const std::string& command) const {
    return run_command("unshare -Urm sh -c 'mount -t tmpfs -o size=" + size + " tmpfs " + folder_.path() +
                       " || exit 77; exec " + command + "' || exit $?");
  }
  static bool no_name_spaces() { return run_command("unshare -Urm true").exit_code != 0; }

  ScratchFolder folder_;
};

TEST_F(IoLimits, WhereASandboxRefusesIoUringThreadsMoveTheBytes) {
  const auto outcome = run_command(kWithoutIoUring + " " + kIoChild + " engine");
  if (outcome.exit_code == 77) GTEST_SKIP() << outcome.output;
  EXPECT_EQ(outcome.output.find("threads: io_uring "), 0u) << outcome.output;
  EXPECT_TRUE(contains(outcome, "a pool of threads moves the bytes instead\n")) << outcome.output;
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;  // an engine asked for by name is an error of kind io
  const auto store = run_command(kWithoutIoUring + " " + kIoChild + " store " + folder_.path() + " 3");
  EXPECT_EQ(store.output, "ok\n");
}

TEST_F(IoLimits, WithoutLockedMemoryThreadsMoveTheBytes) {
  const bool root = geteuid() == 0;
  const std::string drop = root ? "setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock " : "";
  if (root && run_command(drop + "true").exit_code != 0) GTEST_SKIP() << "setpriv cannot drop CAP_IPC_LOCK here";
  const auto outcome = run_command(drop + "sh -c 'ulimit -l 0; exec " + kIoChild + " engine'");
  if (outcome.output.find("io_uring: ") == 0) GTEST_SKIP() << "this kernel does not count rings as locked memory";
  EXPECT_EQ(outcome.output.find("threads: io_uring "), 0u) << outcome.output;
  const auto store = run_command(drop + "sh -c 'ulimit -l 0; exec " + kIoChild + " store " + folder_.path() + " 3'");
  EXPECT_EQ(store.output, "ok\n");
}

TEST_F(IoLimits, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
  const auto fits = run_command(kIoChild + " limit 3145728 store " + folder_.path() + " 3");
  EXPECT_EQ(fits.output, "ok\n");
  const auto outcome = run_command(kIoChild + " limit 3145728 store " + folder_.path() + " 4");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  EXPECT_TRUE(contains(outcome, "File too large; raise the limit on file sizes (ulimit -f)")) << outcome.output;
  EXPECT_TRUE(folder_.empty());
}

TEST_F(IoLimits, AFileSystemThatIsFullIsAnErrorWithItsFigures) {
  if (no_name_spaces()) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto fits = run_on_tmpfs("4m", kIoChild + " store " + folder_.path() + " 3");
  if (fits.exit_code == 77) GTEST_SKIP() << fits.output;
  EXPECT_EQ(fits.output, "ok\n");
  const auto outcome = run_on_tmpfs("4m", kIoChild + " store " + folder_.path() + " 8");
  EXPECT_EQ(outcome.exit_code, 4) << outcome.output;
  EXPECT_TRUE(contains(outcome, "cannot set 1.00 MiB aside at offset 4194304 of " + folder_.path() +
                                    "/(unnamed file), where 0 B are free: "
                                    "No space left on device; free space there"))
      << outcome.output;
}

TEST_F(IoLimits, AReadOnlyFileSystemIsAnAnswerAndAnError) {
  if (no_name_spaces()) GTEST_SKIP() << "unshare -Urm is not allowed here";
  const auto probe = run_on_tmpfs("4m,ro", kIoChild + " probe " + folder_.path());
  if (probe.exit_code == 77) GTEST_SKIP() << probe.output;
  EXPECT_EQ(probe.exit_code, 0);
  EXPECT_EQ(probe.output.find("writable=0 direct=0 unnamed=0 cannot create a file in folder " + folder_.path() +
                              ": Read-only file system; mount it writable or name another folder"),
            0u)
      << probe.output;
  EXPECT_EQ(run_on_tmpfs("4m,ro", kIoChild + " store " + folder_.path() + " 1").exit_code, 4);
}

TEST_F(IoLimits, AFolderWithoutTheRightToWriteIsAnErrorThatSaysSo) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0555), 0);
  const std::string drop = geteuid() == 0 ? "setpriv --bounding-set=-all --inh-caps=-all " : "";
  if (run_command(drop + "true").exit_code != 0) GTEST_SKIP() << "setpriv cannot drop root's capabilities here";
  const auto outcome = run_command(drop + kIoChild + " store " + folder_.path() + " 1");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_EQ(outcome.output, "cannot create a file in folder " + folder_.path() +
                                ": Permission denied; give yourself the right to it (chmod u+rwx) or name another\n");
}

TEST_F(IoLimits, AKillLeavesNoFileBehind) {
  const auto outcome = run_command(kIoChild + " die " + folder_.path());
  EXPECT_EQ(outcome.exit_code, 137) << outcome.output;
  EXPECT_TRUE(folder_.empty());
}

}  // namespace
}  // namespace castor::test
