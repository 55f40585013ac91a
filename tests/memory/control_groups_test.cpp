// SPDX-License-Identifier: Apache-2.0
#include "host/control_groups.h"

#include <gtest/gtest.h>

#include "../support/fake_machine.h"

namespace castor {
namespace {

using Names = std::vector<std::string>;

class ControlGroups : public ::testing::Test {
 protected:
  void belong(const std::string& lines) const { machine_.say("proc/self/cgroup", lines); }
  void mount(const std::string& lines) const { machine_.say("proc/self/mountinfo", lines); }
  std::vector<ControlGroup> v1(std::string_view controller) const {
    return control_groups_v1(machine_.root(), controller);
  }
  std::vector<ControlGroup> v2() const { return control_groups_v2(machine_.root()); }

  Names names(const std::vector<ControlGroup>& groups) const {
    Names all;
    for (const ControlGroup& group : groups) all.push_back(group.name);
    return all;
  }
  Names folders(const std::vector<ControlGroup>& groups) const {
    Names all;
    for (const ControlGroup& group : groups) all.push_back(group.folder.lexically_relative(machine_.root()).string());
    return all;
  }

  test::FakeMachine machine_;
};

TEST_F(ControlGroups, AreTheGroupAndThoseAboveIt) {
  machine_.mount_v2();
  belong("0::/jobs/job_7\n");
  EXPECT_EQ(names(v2()), (Names{"/jobs/job_7", "/jobs", "/"}));
  EXPECT_EQ(folders(v2()), (Names{"sys/fs/cgroup/jobs/job_7", "sys/fs/cgroup/jobs", "sys/fs/cgroup"}));
}

TEST_F(ControlGroups, OfVersion1BelongToAController) {
  machine_.mount_hybrid();
  belong("4:memory:/a\n2:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/d\n");
  EXPECT_EQ(folders(v1("memory")), (Names{"sys/fs/cgroup/memory/a", "sys/fs/cgroup/memory"}));
  EXPECT_EQ(folders(v1("cpu")), (Names{"sys/fs/cgroup/cpu,cpuacct/b", "sys/fs/cgroup/cpu,cpuacct"}));
  EXPECT_EQ(folders(v2()), (Names{"sys/fs/cgroup/unified/d", "sys/fs/cgroup/unified"}));
  EXPECT_EQ(folders(v1("pids")), Names{});
}

TEST_F(ControlGroups, InANamespaceBeginAtTheRoot) {
  machine_.mount_v2();
  belong("0::/\n");
  EXPECT_EQ(names(v2()), Names{"/"});
}

TEST_F(ControlGroups, OfAContainerThatSeesTheHostsPathsAreBelowTheMountsTop) {
  machine_.mount_hybrid("/docker/abc");
  belong("4:memory:/docker/abc/step\n");
  EXPECT_EQ(names(v1("memory")), (Names{"/docker/abc/step", "/docker/abc"}));
  EXPECT_EQ(folders(v1("memory")), (Names{"sys/fs/cgroup/memory/step", "sys/fs/cgroup/memory"}));
  belong("4:memory:/docker/abc\n");
  EXPECT_EQ(folders(v1("memory")), Names{"sys/fs/cgroup/memory"});
}

TEST_F(ControlGroups, ThatTheMountDoesNotShowAreItsTop) {
  machine_.mount_v2("/docker/abc");
  for (const char* group : {"0::/docker/abcd\n", "0::/\n", "0::/../other\n", "0::\n", ""}) {
    belong(group);
    EXPECT_EQ(names(v2()), Names{"/docker/abc"}) << group;
  }
  machine_.mount_v2("/..");
  belong("0::/\n");
  EXPECT_EQ(folders(v2()), Names{"sys/fs/cgroup"});
}

TEST_F(ControlGroups, AreThoseOfTheMountThatShowsMostOfThem) {
  mount(
      "1 0 0:1 /elsewhere /x rw - cgroup2 c rw\n2 0 0:1 /jobs/job_7 /narrow rw - cgroup2 c rw\n"
      "3 0 0:1 /jobs /wide rw - cgroup2 c rw\n4 0 0:1 /jobs/job_7 /last rw - cgroup2 c rw\n");
  belong("0::/jobs/job_7\n");
  EXPECT_EQ(folders(v2()), (Names{"wide/job_7", "wide"}));
}

TEST_F(ControlGroups, OfAMountWithBlanksAndColonsAreFound) {
  mount("1 0 0:1 /a\\040b /my\\040groups rw - cgroup2 c rw\n");
  belong("0::/a b/c:d\n");
  EXPECT_EQ(names(v2()), (Names{"/a b/c:d", "/a b"}));
  EXPECT_EQ(folders(v2()), (Names{"my groups/c:d", "my groups"}));
}

TEST_F(ControlGroups, AreNoneWithoutAMount) {
  belong("4:memory:/a\n0::/a\n");
  mount("27 1 254:0 / / rw - ext4 /dev/vda rw\n");
  EXPECT_EQ(names(v1("memory")), Names{});
  EXPECT_EQ(names(v2()), Names{});
}

TEST_F(ControlGroups, AreThoseOfTheUsualMountWithoutMountinfo) {
  belong("4:memory:/a\n0::/a\n");
  EXPECT_EQ(names(v1("memory")), Names{});
  EXPECT_EQ(folders(v2()), (Names{"sys/fs/cgroup/a", "sys/fs/cgroup"}));
}

TEST_F(ControlGroups, AreNotReadOfMalformedLines) {
  mount("\n-\n - \n1 0 0:1 / - cgroup2 c rw\n1 0 0:1 / /point rw - cgroup2\n2 0 0:1 / /good rw - cgroup2 c rw\n");
  belong("\n0\n0:\nnonsense\n0::/a\n");
  EXPECT_EQ(folders(v2()), (Names{"good/a", "good"}));
}

}  // namespace
}  // namespace castor
