// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <castor/memory/result.h>

namespace castor::cli {

/// The most DRAM this process ever held since it was started, from the kernel; 0 where it does not say.
std::uint64_t peak_rss_bytes();

/// DRAM of this machine; 0 where the kernel does not say.
std::uint64_t total_memory_bytes();

/// Errors: failed, `no GPU …`, where no CUDA device can be used.
Result<void> check_gpu();

/// Errors: io where one of `folders` does not exist, is none, or cannot be written to.
Result<void> check_folders(const std::vector<std::filesystem::path>& folders);

}  // namespace castor::cli
