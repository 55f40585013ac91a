// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_cpus.h>

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <castor/memory/text.h>

#include "control_groups.h"
#include "kernel_file.h"

namespace castor {
namespace {

using std::filesystem::path;

using CpuSet = std::array<cpu_set_t, 16>;  // 16384 CPUs; the kernel refuses a set that is smaller than its own

/// Empty where the kernel does not say.
CpuSet allowed_cpus() {
  CpuSet allowed;
  if (::sched_getaffinity(0, sizeof allowed, allowed.data()) != 0) CPU_ZERO_S(sizeof allowed, allowed.data());
  return allowed;
}

unsigned count(const CpuSet& cpus) { return static_cast<unsigned>(CPU_COUNT_S(sizeof cpus, cpus.data())); }

CpuQuota quota_of(const ControlGroup& group, double n_cpus) {
  const std::string digits = shortest(std::round(n_cpus * 100) / 100);
  return {n_cpus,
          "the CPU quota of the control group " + group.name + ", " + digits + (n_cpus == 1 ? " CPU" : " CPUs")};
}

void add_quota(std::vector<CpuQuota>& quotas, const ControlGroup& group, std::optional<std::uint64_t> quota_us,
               std::optional<std::uint64_t> period_us) {
  if (quota_us.value_or(0) == 0 || period_us.value_or(0) == 0) return;
  quotas.push_back(quota_of(group, static_cast<double>(*quota_us) / static_cast<double>(*period_us)));
}

}  // namespace

std::optional<CpuQuota> cpu_quota(const path& root) {
  std::vector<CpuQuota> quotas;
  for (const ControlGroup& group : control_groups_v1(root, "cpu"))
    add_quota(quotas, group, number_in(group.folder / "cpu.cfs_quota_us"),
              number_in(group.folder / "cpu.cfs_period_us"));
  for (const ControlGroup& group : control_groups_v2(root))
    add_quota(quotas, group, number_in(group.folder / "cpu.max"), number_in(group.folder / "cpu.max", 1));
  const auto least = std::min_element(quotas.begin(), quotas.end(),
                                      [](const CpuQuota& a, const CpuQuota& b) { return a.n_cpus < b.n_cpus; });
  if (least == quotas.end()) return std::nullopt;
  return *least;
}

unsigned usable_cpus(const path& root) {
  const unsigned n_allowed = std::max(1u, count(allowed_cpus()));
  const auto quota = cpu_quota(root);
  if (!quota || quota->n_cpus >= n_allowed) return n_allowed;
  return std::max(1u, static_cast<unsigned>(std::ceil(quota->n_cpus)));
}

void leave_cpus(unsigned n) {
  CpuSet cpus = allowed_cpus();
  if (count(cpus) <= n) return;
  for (std::size_t cpu = 0; n > 0; ++cpu) {
    if (!CPU_ISSET_S(cpu, sizeof cpus, cpus.data())) continue;
    CPU_CLR_S(cpu, sizeof cpus, cpus.data());
    --n;
  }
  (void)::sched_setaffinity(0, sizeof cpus, cpus.data());
}

}  // namespace castor
