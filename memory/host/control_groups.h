// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace castor {

/// The control group of this process, or a group above it. A limit of a group also holds for all groups below it.
struct ControlGroup {
  std::filesystem::path folder;  ///< of its files; it may not exist
  std::string name;              ///< `/jobs/job_7`, as in /proc/self/cgroup
};

/// The groups of this process in the hierarchy of version 1 that has `controller` (`memory`, `cpu`): its own group
/// first, the topmost that is mounted last. Empty where no such hierarchy is mounted.
///
/// /proc/self/mountinfo says where the hierarchy is mounted and which group the mount shows as its root. Where that is
/// neither the process's group nor above it, as may be in a container, only the root of the mount is returned.
/// `root` is the folder that holds /proc and the mounts.
std::vector<ControlGroup> control_groups_v1(const std::filesystem::path& root, std::string_view controller);

/// The same in the hierarchy of version 2, which all controllers share. Where there is no mountinfo, it is taken to be
/// mounted at /sys/fs/cgroup.
std::vector<ControlGroup> control_groups_v2(const std::filesystem::path& root);

}  // namespace castor
