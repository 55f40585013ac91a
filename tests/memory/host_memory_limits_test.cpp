// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_memory.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <castor/memory/bytes.h>

#include "../support/fake_machine.h"

namespace castor {
namespace {

constexpr std::uint64_t kMachineBytes = 24000 * 1024, kMachineAvailableBytes = 20000 * 1024;

/// A machine of 24000 KiB, of which 20000 KiB are available.
class HostMemoryLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    machine_.say("proc/meminfo",
                 "MemTotal:       24000 kB\nMemFree:  100 kB\nMemAvailable:   20000 kB\nBuffers: 7 kB\n");
  }
  void say(const std::string& file, const std::string& text) const { machine_.say(file, text); }
  HostMemory memory() const { return host_memory(machine_.root()); }

  void be_in_v2(const std::string& group) const {
    machine_.mount_v2();
    say("proc/self/cgroup", "0::" + group + "\n");
  }
  void be_in_hybrid(const std::string& group, const std::string& top = "/") const {
    machine_.mount_hybrid(top);
    say("proc/self/cgroup", "4:memory:" + group + "\n0::/\n");
  }
  void limit_group(const std::string& group, const std::string& max, const std::string& current) const {
    say("sys/fs/cgroup/" + group + "/memory.max", max + "\n");
    say("sys/fs/cgroup/" + group + "/memory.current", current + "\n");
  }
  void limit_process(const std::string& address_space, const std::string& data) const {
    say("proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             " +
            data +
            "            unlimited            bytes     \n"
            "Max address space         " +
            address_space + "            unlimited            bytes     \n");
  }
  void expect_no_limit(const std::string& why) const {
    const auto [total, available] = memory();
    EXPECT_EQ(total.n_bytes, kMachineBytes) << why;
    EXPECT_EQ(available.n_bytes, kMachineAvailableBytes) << why;
    EXPECT_EQ(total.limit + available.limit, "") << why;
  }

  test::FakeMachine machine_;
};

TEST_F(HostMemoryLimits, AreNoneOnABareMachine) { expect_no_limit("no files"); }

TEST_F(HostMemoryLimits, OfVersion2LeaveCachedFilesAvailable) {
  be_in_v2("/foo");
  limit_group("foo", "8388608", "5000000");
  say("sys/fs/cgroup/foo/memory.stat", "anon 3000000\nfile 2000000\ninactive_file 1500000\nactive_file 500000\n");
  const auto [total, available] = memory();
  EXPECT_EQ(total.n_bytes, 8388608u);
  EXPECT_EQ(available.n_bytes, 8388608u - 5000000u + 1500000u + 500000u);
  EXPECT_EQ(available.limit, "the memory limit of the control group /foo, 8.00 MiB");
  EXPECT_EQ(total.limit, available.limit);
}

TEST_F(HostMemoryLimits, OfVersion1LeaveCachedFilesOfTheWholeSubtreeAvailable) {
  be_in_hybrid("/jobs/job_7");
  say("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "10485760\n");
  say("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "9000000\n");
  say("sys/fs/cgroup/memory/jobs/memory.stat",
      "inactive_file 1\ntotal_inactive_file 1500000\ntotal_active_file 500000\n");
  const auto [total, available] = memory();
  EXPECT_EQ(total.n_bytes, 10485760u);
  EXPECT_EQ(available.n_bytes, 3485760u);
  EXPECT_EQ(available.limit, "the memory limit of the control group /jobs, 10.0 MiB");
}

TEST_F(HostMemoryLimits, OfNestedGroupsCountByWhatEachLeaves) {
  be_in_v2("/jobs/job_7");
  limit_group("jobs/job_7", "6291456", "1000000");
  limit_group("jobs", "12582912", "11000000");
  const auto [total, available] = memory();
  EXPECT_EQ(total.n_bytes, 6291456u);
  EXPECT_EQ(total.limit, "the memory limit of the control group /jobs/job_7, 6.00 MiB");
  EXPECT_EQ(available.n_bytes, 1582912u);
  EXPECT_EQ(available.limit, "the memory limit of the control group /jobs, 12.0 MiB");
}

TEST_F(HostMemoryLimits, IncludeMemoryHigh) {
  be_in_v2("/foo");
  say("sys/fs/cgroup/foo/memory.max", "8388608\n");
  say("sys/fs/cgroup/foo/memory.high", "4194304\n");
  say("sys/fs/cgroup/foo/memory.current", "1000000\n");
  EXPECT_EQ(memory().total.n_bytes, 4194304u);
  EXPECT_EQ(memory().available.n_bytes, 3194304u);
  EXPECT_EQ(memory().available.limit, "the memory limit (memory.high) of the control group /foo, 4.00 MiB");
}

TEST_F(HostMemoryLimits, OfBothVersionsCount) {
  be_in_hybrid("/a");
  say("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8388608\n");
  say("sys/fs/cgroup/unified/memory.max", "4194304\n");
  EXPECT_EQ(memory().total.n_bytes, 4194304u);
  say("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(memory().total.n_bytes, 2097152u);
}

TEST_F(HostMemoryLimits, OfAContainerAreThoseOfItsMount) {
  be_in_hybrid("/docker/abc", "/docker/abc");
  say("sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608\n");
  say("sys/fs/cgroup/memory/memory.usage_in_bytes", "388608\n");
  EXPECT_EQ(memory().available.n_bytes, 8000000u);
  EXPECT_EQ(memory().available.limit, "the memory limit of the control group /docker/abc, 8.00 MiB");
  be_in_hybrid("/not/mounted/here");
  EXPECT_EQ(memory().available.n_bytes, 8000000u);
  EXPECT_EQ(memory().available.limit, "the memory limit of the control group /, 8.00 MiB");
}

TEST_F(HostMemoryLimits, ThatAreUsedUpLeaveNothing) {
  be_in_v2("/foo");
  limit_group("foo", "4194304", "5000000");
  EXPECT_EQ(memory().available.n_bytes, 0u);
  EXPECT_NE(memory().available.limit, "");
}

TEST_F(HostMemoryLimits, LeaveNoMoreThanThemselves) {
  be_in_v2("/foo");
  limit_group("foo", "4194304", "1000000");
  say("sys/fs/cgroup/foo/memory.stat", "inactive_file 3000000\n");
  EXPECT_EQ(memory().available.n_bytes, 4194304u);
}

TEST_F(HostMemoryLimits, AboveTheMachinesMemoryAreNotNamed) {
  be_in_v2("/foo");
  say("sys/fs/cgroup/foo/memory.max", "24576000\n");
  expect_no_limit("as large as the machine");
}

TEST_F(HostMemoryLimits, BelowTheTotalDoNotHideABusyMachine) {
  be_in_v2("/foo");
  say("sys/fs/cgroup/foo/memory.max", "22528000\n");
  const auto [total, available] = memory();
  EXPECT_EQ(total.n_bytes, 22528000u);
  EXPECT_EQ(total.limit, "the memory limit of the control group /foo, 21.5 MiB");
  EXPECT_EQ(available.n_bytes, kMachineAvailableBytes);
  EXPECT_EQ(available.limit, "");
}

TEST_F(HostMemoryLimits, ThatSayNoneAreNone) {
  be_in_hybrid("/a");
  say("proc/meminfo", "MemTotal: 17592186044416000 kB\nMemAvailable: 17592186044416000 kB\n");
  for (const char* text : {"9223372036854771712\n", "9223372036854710272\n"}) {  // pages of 4 KiB and of 64 KiB
    say("sys/fs/cgroup/memory/a/memory.limit_in_bytes", text);
    EXPECT_EQ(memory().total.limit, "") << text;
  }
}

TEST_F(HostMemoryLimits, ThatAreMalformedAreNone) {
  be_in_v2("/foo");
  for (const char* text : {"max\n", "", "-1\n", "lots\n", "8MiB\n", "99999999999999999999\n"}) {
    say("sys/fs/cgroup/foo/memory.max", text);
    expect_no_limit(text);
  }
}

TEST_F(HostMemoryLimits, WithoutOtherFilesLeaveTheWholeLimit) {
  be_in_v2("/foo");
  say("sys/fs/cgroup/foo/memory.max", "4194304\n");
  EXPECT_EQ(memory().available.n_bytes, 4194304u);
  say("sys/fs/cgroup/foo/memory.current", "what\n");
  say("sys/fs/cgroup/foo/memory.stat", "inactive_file\n");
  EXPECT_EQ(memory().available.n_bytes, 4194304u);
}

TEST_F(HostMemoryLimits, OfTheProcessLeaveWhatItDoesNotUse) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  say("proc/self/statm", "300 100 50 5 0 200 0\n");
  limit_process("8388608", "unlimited");
  EXPECT_EQ(memory().total.n_bytes, 8388608u);
  EXPECT_EQ(memory().available.n_bytes, 8388608u - 300 * page_bytes);
  EXPECT_EQ(memory().available.limit, "the limit of the address space (ulimit -v), 8.00 MiB");
  limit_process("8388608", "4194304");
  EXPECT_EQ(memory().total.n_bytes, 4194304u);
  EXPECT_EQ(memory().available.n_bytes, 4194304u - 200 * page_bytes);
  EXPECT_EQ(memory().available.limit, "the limit of the data size (ulimit -d), 4.00 MiB");
}

TEST_F(HostMemoryLimits, OfTheProcessMayBeUnlimitedOrUnknown) {
  limit_process("unlimited", "unlimited");
  expect_no_limit("unlimited");
  say("proc/self/limits", "Max address space\nMax data size  \nnonsense\n");
  expect_no_limit("malformed");
}

TEST_F(HostMemoryLimits, AreNamedInWhatIsAvailable) {
  EXPECT_TRUE(memory().available.fits(kMachineAvailableBytes));
  EXPECT_FALSE(memory().available.fits(kMachineAvailableBytes + 1));
  EXPECT_TRUE(LimitedBytes().fits(1)) << "not known";
  be_in_v2("/foo");
  limit_group("foo", "8388608", "5242880");
  EXPECT_FALSE(memory().available.fits(4 * kMiB));
  EXPECT_EQ(text_of_available(memory().available),
            "the 3.00 MiB that the memory limit of the control group /foo, 8.00 MiB, leaves now");
  EXPECT_EQ(text_of_available({kMiB, ""}), "the 1.00 MiB that this machine has available now");
}

TEST_F(HostMemoryLimits, CountWithoutMeminfo) {
  say("proc/meminfo", "");
  EXPECT_EQ(memory().total.n_bytes, 0u);
  be_in_v2("/foo");
  say("sys/fs/cgroup/foo/memory.max", "4194304\n");
  EXPECT_EQ(memory().total.n_bytes, 4194304u);
  EXPECT_EQ(memory().available.n_bytes, 4194304u);
}

}  // namespace
}  // namespace castor
