// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_memory.h>

#include <gtest/gtest.h>

#include <fstream>

#include "../support/scratch_folder.h"

namespace castor {
namespace {

/// A machine's /proc and /sys in a folder.
class HostMemory : public ::testing::Test {
 protected:
  void say(const std::string& file, const std::string& text) {
    const auto path = std::filesystem::path(folder_.path()) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::uint64_t available() const { return available_host_memory_bytes(folder_.path()); }

  test::ScratchFolder folder_;
};

constexpr const char* kMemInfo =
    "MemTotal:       24000 kB\nMemFree:  100 kB\nMemAvailable:   20000 kB\nBuffers: 7 kB\n";

TEST_F(HostMemory, IsWhatTheKernelCallsAvailable) {
  say("proc/meminfo", kMemInfo);
  EXPECT_EQ(available(), 20000u * 1024);
}

TEST_F(HostMemory, IsWhatTheControlGroupsAboveLeave) {
  say("proc/meminfo", kMemInfo);
  say("proc/self/cgroup", "1:name=systemd:/else\n0::/jobs/job_7\n");
  say("sys/fs/cgroup/jobs/job_7/memory.max", "max\n");
  say("sys/fs/cgroup/jobs/job_7/memory.current", "3000000\n");
  EXPECT_EQ(available(), 20000u * 1024);
  say("sys/fs/cgroup/jobs/memory.max", "5000000\n");
  say("sys/fs/cgroup/jobs/memory.current", "4000000\n");
  EXPECT_EQ(available(), 1000000u);
  say("sys/fs/cgroup/memory.max", "6000000\n");  // the root group: in a container, the container's own
  say("sys/fs/cgroup/memory.current", "6500000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(HostMemory, IsUnknownWhereTheKernelDoesNotSay) { EXPECT_EQ(available(), 0u); }

TEST(HostMemoryHere, IsSomething) { EXPECT_GT(available_host_memory_bytes(), 1u << 20); }

}  // namespace
}  // namespace castor
