// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "scratch_folder.h"

namespace castor::test {

/// A machine's /proc and /sys in a folder.
class FakeMachine {
 public:
  std::filesystem::path root() const { return folder_.path(); }

  void say(const std::string& file, const std::string& text) const {
    const auto path = root() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  /// Mounts version 2 at /sys/fs/cgroup, showing the group `top`.
  void mount_v2(const std::string& top = "/") const {
    say("proc/self/mountinfo", "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n31 23 0:28 " + top +
                                   " /sys/fs/cgroup ro,nosuid shared:9 master:3 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  /// Mounts the hierarchies `memory` and `cpu,cpuacct` of version 1, each showing the group `top`, and beside them one
  /// of version 2 without controllers.
  void mount_hybrid(const std::string& top = "/") const {
    say("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n32 31 0:29 " + top +
                                   " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n35 31 0:32 " + top +
                                   " /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n41 31 0:38 / "
                                   "/sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }

 private:
  ScratchFolder folder_;
};

}  // namespace castor::test
