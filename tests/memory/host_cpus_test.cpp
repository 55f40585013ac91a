// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_cpus.h>

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "../support/fake_machine.h"

namespace castor {
namespace {

unsigned n_allowed_here() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : 1;
}

class HostCpus : public ::testing::Test {
 protected:
  void say_v2(const std::string& cpu_max) const {
    machine_.mount_v2();
    machine_.say("proc/self/cgroup", "0::/job\n");
    machine_.say("sys/fs/cgroup/job/cpu.max", cpu_max);
  }
  void say_v1(const std::string& group, const std::string& quota_us, const std::string& period_us) const {
    machine_.say("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_quota_us", quota_us);
    machine_.say("sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.cfs_period_us", period_us);
  }
  std::string quota() const {
    const auto found = cpu_quota(machine_.root());
    return found ? found->text : "none";
  }
  unsigned usable() const { return usable_cpus(machine_.root()); }

  test::FakeMachine machine_;
};

TEST_F(HostCpus, AreThoseThatTheProcessMayRunOn) {
  EXPECT_EQ(quota(), "none");
  EXPECT_EQ(usable(), n_allowed_here());
}

TEST_F(HostCpus, AreFewerUnderAQuotaOfVersion2) {
  say_v2("50000 100000\n");
  EXPECT_EQ(quota(), "the CPU quota of the control group /job, 0.5 CPUs");
  EXPECT_EQ(usable(), 1u);
}

TEST_F(HostCpus, OfAPartOfACpuCountAsOne) {
  say_v2("150000 100000\n");
  EXPECT_EQ(cpu_quota(machine_.root())->n_cpus, 1.5);
  EXPECT_EQ(usable(), std::min(2u, n_allowed_here()));
}

TEST_F(HostCpus, AreNoMoreUnderAQuotaAboveThem) {
  say_v2("900000000000 1000\n");
  EXPECT_EQ(cpu_quota(machine_.root())->n_cpus, 9e8);
  EXPECT_EQ(usable(), n_allowed_here());
}

TEST_F(HostCpus, FollowTheLeastQuotaOfTheGroupsAbove) {
  machine_.mount_hybrid();
  machine_.say("proc/self/cgroup", "2:cpu,cpuacct:/jobs/job_7\n");
  say_v1("/jobs/job_7", "300000\n", "100000\n");
  say_v1("/jobs", "25000\n", "25000\n");
  say_v1("", "-1\n", "100000\n");
  EXPECT_EQ(quota(), "the CPU quota of the control group /jobs, 1 CPU");
  EXPECT_EQ(usable(), 1u);
}

TEST_F(HostCpus, FollowBothVersions) {
  machine_.mount_hybrid();
  machine_.say("proc/self/cgroup", "2:cpu,cpuacct:/a\n0::/b\n");
  say_v1("/a", "400000\n", "100000\n");
  machine_.say("sys/fs/cgroup/unified/b/cpu.max", "100000 300000\n");
  EXPECT_EQ(quota(), "the CPU quota of the control group /b, 0.33 CPUs");
}

TEST_F(HostCpus, HaveNoQuotaWhereItsFileSaysNone) {
  for (const char* text : {"max 100000\n", "", "max\n", "50000\n", "50000 0\n", "0 100000\n", "-1 100000\n", "a b\n"}) {
    say_v2(text);
    EXPECT_EQ(quota(), "none") << text;
  }
  machine_.mount_hybrid();
  machine_.say("proc/self/cgroup", "2:cpu,cpuacct:/a\n");
  machine_.say("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(quota(), "none");
}

TEST(HostCpusHere, AreLeftToOthersFromTheFirstOn) {
  std::thread([] {
    const unsigned n_before = n_allowed_here();
    if (n_before < 2) GTEST_SKIP() << "there is one CPU";
    cpu_set_t before, after;
    ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    leave_cpus(0);
    leave_cpus(n_before);
    EXPECT_EQ(n_allowed_here(), n_before);
    leave_cpus(1);
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    int first = 0;
    while (!CPU_ISSET(first, &before)) ++first;
    CPU_CLR(first, &before);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
  }).join();
}

TEST(HostCpusHere, AreSome) { EXPECT_GE(usable_cpus(), 1u); }

}  // namespace
}  // namespace castor
