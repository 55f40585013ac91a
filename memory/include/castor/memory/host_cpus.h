// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace castor {

/// CPU time that a control group may use per time, in CPUs, and that limit in words.
struct CpuQuota {
  double n_cpus = 0;
  std::string text;  ///< `the CPU quota of the control group /foo, 1.5 CPUs`
};

/// The least CPU quota of this process's control group and of those above it (cpu.max of version 2, cpu.cfs_quota_us
/// and cpu.cfs_period_us of version 1); empty where none is set.
///
/// `root` is the folder that holds /proc and /sys. A file that is missing or malformed sets no quota; there are no
/// errors. Threads: any.
std::optional<CpuQuota> cpu_quota(const std::filesystem::path& root = "/");

/// The number of threads that can compute at once: the CPUs that this thread may run on (sched_getaffinity), or the
/// quota, rounded up, where that is less. At least 1.
unsigned usable_cpus(const std::filesystem::path& root = "/");

/// Leaves the first `n` of the CPUs that the calling thread may run on to other threads, unless it has no more than
/// those.
void leave_cpus(unsigned n);

}  // namespace castor
