// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace castor {

/// A limit of this process's memory in bytes (setrlimit), and the part of it that is in use.
struct ProcessLimit {
  std::string name;  ///< `limit of the address space (ulimit -v)`
  std::uint64_t limit_bytes = 0, used_bytes = 0;
};

/// RLIMIT_AS and RLIMIT_DATA, as far as they are set, of /proc/self/limits and /proc/self/statm under `root`. The use
/// counted against RLIMIT_DATA includes the stack, which the kernel leaves out.
std::vector<ProcessLimit> process_limits(const std::filesystem::path& root);

}  // namespace castor
