// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_memory.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <castor/memory/bytes.h>

#include "control_groups.h"
#include "kernel_file.h"
#include "process_limits.h"

namespace castor {
namespace {

using std::filesystem::path;

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

/// Version 1 writes "no limit" as the largest multiple of the page size that a signed 64 bit number holds.
constexpr std::uint64_t kNoGroupLimit = std::uint64_t{1} << 62;

struct Bound {
  std::uint64_t total_bytes = kUnknown, available_bytes = kUnknown;
  std::string text;
};

/// The files of a control group that hold one of its limits, its use, and the part of the use that can be dropped.
struct GroupFiles {
  const char* limit;
  const char* usage;
  std::array<const char*, 2> cached_fields;  ///< of memory.stat
  const char* name;
};

constexpr GroupFiles kLimitV1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}, "memory limit"};
constexpr GroupFiles kMaxV2{"memory.max", "memory.current", {"inactive_file", "active_file"}, "memory limit"};
constexpr GroupFiles kHighV2{"memory.high", "memory.current", kMaxV2.cached_fields, "memory limit (memory.high)"};

void add_machine(std::vector<Bound>& bounds, const path& root) {
  const path file = root / "proc/meminfo";
  const auto total_kib = field_in(file, "MemTotal:"), available_kib = field_in(file, "MemAvailable:");
  bounds.push_back({total_kib ? *total_kib * kKiB : kUnknown, available_kib ? *available_kib * kKiB : kUnknown, ""});
}

void add_group(std::vector<Bound>& bounds, const ControlGroup& group, const GroupFiles& files) {
  const auto limit_bytes = number_in(group.folder / files.limit);
  if (!limit_bytes || *limit_bytes >= kNoGroupLimit) return;
  const auto usage_bytes = number_in(group.folder / files.usage).value_or(0);
  std::uint64_t cached_bytes = 0;
  for (const char* field : files.cached_fields)
    cached_bytes += field_in(group.folder / "memory.stat", field).value_or(0);
  const auto kept_bytes = saturating_sub(usage_bytes, cached_bytes);
  bounds.push_back(
      {*limit_bytes, saturating_sub(*limit_bytes, kept_bytes),
       std::string("the ") + files.name + " of the control group " + group.name + ", " + format_bytes(*limit_bytes)});
}

void add_process(std::vector<Bound>& bounds, const ProcessLimit& limit) {
  bounds.push_back({limit.limit_bytes, saturating_sub(limit.limit_bytes, limit.used_bytes),
                    "the " + limit.name + ", " + format_bytes(limit.limit_bytes)});
}

/// The machine's bound comes first, so that a limit equal to it is not named.
std::vector<Bound> bounds_of(const path& root) {
  std::vector<Bound> bounds;
  add_machine(bounds, root);
  for (const ControlGroup& group : control_groups_v1(root, "memory")) add_group(bounds, group, kLimitV1);
  for (const ControlGroup& group : control_groups_v2(root)) {
    add_group(bounds, group, kMaxV2);
    add_group(bounds, group, kHighV2);
  }
  for (const ProcessLimit& limit : process_limits(root)) add_process(bounds, limit);
  return bounds;
}

LimitedBytes least(const std::vector<Bound>& bounds, std::uint64_t Bound::*amount) {
  const auto bound = std::min_element(bounds.begin(), bounds.end(),
                                      [&](const Bound& a, const Bound& b) { return a.*amount < b.*amount; });
  if ((*bound).*amount == kUnknown) return {};
  return {(*bound).*amount, bound->text};
}

}  // namespace

HostMemory host_memory(const path& root) {
  const auto bounds = bounds_of(root);
  return {least(bounds, &Bound::total_bytes), least(bounds, &Bound::available_bytes)};
}

std::string text_of_available(const LimitedBytes& available) {
  const std::string limit = available.limit.empty() ? "this machine has available" : available.limit + ", leaves";
  return "the " + format_bytes(available.n_bytes) + " that " + limit + " now";
}

std::uint64_t available_host_memory_bytes(const path& root) { return host_memory(root).available.n_bytes; }

}  // namespace castor
