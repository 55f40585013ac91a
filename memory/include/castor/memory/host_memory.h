// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace castor {

/// DRAM that this process can take now without swapping: the kernel's MemAvailable, or less under the limit of a
/// control group (a container, a batch job). 0 where the kernel does not say. `root` is the folder that holds /proc and
/// /sys.
///
/// Some virtual machines report less than they get once they touch it: good for advice, not for limits.
std::uint64_t available_host_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace castor
