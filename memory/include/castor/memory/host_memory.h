// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace castor {

/// DRAM that this process could have now without swapping: what the kernel calls available, or less where a control group
/// (a container, a batch job) leaves it less. 0 where the kernel does not say. `root` is where /proc and /sys are.
///
/// Some virtual machines begin with less than they get when they touch it: good for advice, not for limits.
std::uint64_t available_host_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace castor
