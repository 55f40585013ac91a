// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace castor {

/// An amount of DRAM, and the limit that makes it less than the machine's.
struct LimitedBytes {
  std::uint64_t n_bytes = 0;
  /// `the memory limit of the control group /foo, 700 MiB`; empty where no limit is below the machine's own amount.
  std::string limit;

  /// Whether `needed_bytes` fit; true where the amount is not known.
  bool fits(std::uint64_t needed_bytes) const { return needed_bytes <= n_bytes || (n_bytes == 0 && limit.empty()); }
};

/// The DRAM of this process. An amount is 0 without a limit where the kernel does not say it and nothing limits it.
struct HostMemory {
  LimitedBytes total;      ///< that it can ever have
  LimitedBytes available;  ///< that it can take now without swapping
};

/// The least of the machine's memory (MemTotal, MemAvailable of /proc/meminfo), of the memory limits of this process's
/// control group and of those above it (a container, a batch job), and of RLIMIT_AS and RLIMIT_DATA.
///
/// A control group, of version 1 or 2, leaves its limit minus its use, plus its inactive page cache, which the kernel
/// drops under pressure. memory.high counts as a limit. Groups above a container's own are not seen from inside it.
///
/// `root` is the folder that holds /proc and /sys. A file that is missing or malformed sets no limit; there are no
/// errors. Cost: a few dozen reads of small files, so once per decision, not per allocation. Threads: any.
///
/// Some virtual machines report less than they get once they touch it: good for advice, not for limits.
HostMemory host_memory(const std::filesystem::path& root = "/");

/// `the 642 MiB that the memory limit of the control group /foo, 700 MiB, leaves now`; where nothing limits the process,
/// `the 20.0 GiB that this machine has available now`.
std::string text_of_available(const LimitedBytes& available);

/// `host_memory(root).available.n_bytes`.
std::uint64_t available_host_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace castor
