// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <castor/memory/result.h>

namespace castor::cli {

/// The peak DRAM use of this process since its start; 0 if the kernel does not report it.
std::uint64_t peak_rss_bytes();

/// DRAM of this machine; 0 if the kernel does not report it.
std::uint64_t total_memory_bytes();

/// Errors: failed, `no GPU …`, if no CUDA device can be used.
Result<void> check_gpu();

/// Errors: io if one of `folders` does not exist, is not a folder, or cannot be written to.
Result<void> check_folders(const std::vector<std::filesystem::path>& folders);

}  // namespace castor::cli
