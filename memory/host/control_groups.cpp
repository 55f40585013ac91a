// SPDX-License-Identifier: Apache-2.0
#include "control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include <castor/memory/text.h>

namespace castor {
namespace {

using std::filesystem::path;

/// One hierarchy of groups. Of version 2 the controller is "", as in the line `0::/group` of /proc/self/cgroup.
struct Hierarchy {
  std::string_view file_system;  ///< type in mountinfo
  std::string_view controller;
};

struct GroupMount {
  path top;    ///< the group that the mount shows as its root
  path point;  ///< where it is mounted
};

bool lists(std::string_view names, std::string_view name) {
  const auto all = split(names, ',');
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool is_octal(std::string_view digits) {
  return digits.size() == 3 && digits.find_first_not_of("01234567") == std::string_view::npos;
}

/// mountinfo writes a blank in a path as `\040`.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digits = text.substr(i + 1, 3);
    if (text[i] == '\\' && is_octal(digits)) {
      plain += static_cast<char>(std::stoi(std::string(digits), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// Reads `31 23 0:28 /top /point rw,relatime shared:9 - cgroup cgroup rw,memory`; empty for other mounts.
std::optional<GroupMount> mount_in(const std::string& line, const Hierarchy& hierarchy) {
  const auto dash = line.find(" - ");
  if (dash == std::string::npos) return std::nullopt;
  std::istringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
  std::string id, parent, device, top, point, type, source, options;
  if (!(head >> id >> parent >> device >> top >> point) || !(tail >> type >> source >> options)) return std::nullopt;
  if (type != hierarchy.file_system) return std::nullopt;
  if (!hierarchy.controller.empty() && !lists(options, hierarchy.controller)) return std::nullopt;
  return GroupMount{unescape(top), unescape(point)};
}

std::vector<GroupMount> mounts_of(const path& root, const Hierarchy& hierarchy) {
  std::ifstream file(root / "proc/self/mountinfo");
  const bool is_v2 = hierarchy.controller.empty();
  if (!file) return is_v2 ? std::vector{GroupMount{"/", "/sys/fs/cgroup"}} : std::vector<GroupMount>{};
  std::vector<GroupMount> mounts;
  for (std::string line; std::getline(file, line);)
    if (auto mount = mount_in(line, hierarchy)) mounts.push_back(std::move(*mount));
  return mounts;
}

/// The path of this process's group, of the line `4:cpu,cpuacct:/jobs/job_7`; empty where there is no such line.
path group_of(const path& root, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (lists(controllers, controller)) return line.substr(second + 1);
  }
  return {};
}

/// `group` as seen from `top`: "." where they are equal; empty where `group` is not below it.
path below(const path& group, const path& top) {
  const path relative = group.lexically_relative(top);
  return relative.empty() || *relative.begin() == ".." ? path() : relative;
}

/// The mount that shows `group` and the most groups above it; of mounts over one another the last, which hides the
/// others.
const GroupMount& widest_mount(const std::vector<GroupMount>& mounts, const path& group) {
  const GroupMount* widest = nullptr;
  for (const GroupMount& mount : mounts) {
    if (below(group, mount.top).empty()) continue;
    if (!widest || mount.top.native().size() <= widest->top.native().size()) widest = &mount;
  }
  return widest ? *widest : mounts.front();
}

std::vector<ControlGroup> groups_in(const path& root, const Hierarchy& hierarchy) {
  const auto mounts = mounts_of(root, hierarchy);
  if (mounts.empty()) return {};
  const path group = group_of(root, hierarchy.controller);
  const GroupMount& mount = widest_mount(mounts, group);
  const path folder = root / mount.point.relative_path();
  std::vector<ControlGroup> groups;
  for (path at = below(group, mount.top); !at.empty() && at != "."; at = at.parent_path())
    groups.push_back({folder / at, (mount.top / at).string()});
  groups.push_back({folder, mount.top.string()});
  return groups;
}

}  // namespace

std::vector<ControlGroup> control_groups_v1(const path& root, std::string_view controller) {
  return groups_in(root, {"cgroup", controller});
}

std::vector<ControlGroup> control_groups_v2(const path& root) { return groups_in(root, {"cgroup2", ""}); }

}  // namespace castor
