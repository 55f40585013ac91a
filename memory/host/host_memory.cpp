// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_memory.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace castor {
namespace {

using std::filesystem::path;

std::uint64_t machines_available_bytes(const path& root) {
  std::ifstream file(root / "proc/meminfo");
  std::string name;
  for (std::uint64_t kib = 0; file >> name >> kib; file.ignore(64, '\n'))
    if (name == "MemAvailable:") return kib * 1024;
  return 0;
}

/// The number in `file`; empty where there is no such file or it says `max`.
std::optional<std::uint64_t> number_in(const path& file) {
  std::uint64_t number = 0;
  if (std::ifstream(file) >> number) return number;
  return std::nullopt;
}

/// The folder of this process's control group of version 2.
path control_group(const path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return root / "sys/fs/cgroup" / line.substr(4);
  return root / "sys/fs/cgroup";
}

}  // namespace

/// A group's memory limit also holds for all groups below it.
std::uint64_t available_host_memory_bytes(const path& root) {
  std::uint64_t available_bytes = machines_available_bytes(root);
  const path top = root / "sys/fs/cgroup";
  for (path group = control_group(root); group.native().size() >= top.native().size(); group = group.parent_path()) {
    const auto limit_bytes = number_in(group / "memory.max"), used_bytes = number_in(group / "memory.current");
    if (limit_bytes && used_bytes)
      available_bytes = std::min(available_bytes, *limit_bytes - std::min(*limit_bytes, *used_bytes));
  }
  return available_bytes;
}

}  // namespace castor
