// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace castor::check {

/// The result of one probe: whether the feature works, the details, and the remedy if it does not.
struct Finding {
  std::string name;  ///< key in JSON: `io_uring`
  bool ok = false;
  std::string detail;
};

/// The build: versions, compiler, LibTorch, NCCL.
std::vector<Finding> probe_build();

/// GPUs, memory and CPUs with their limits, memlock limit, SIMD, io_uring: each by a trial or a query of the kernel.
std::vector<Finding> probe_machine();

/// Direct I/O, unnamed files and free space of `folder`, by writing one block.
std::vector<Finding> probe_folder(const std::filesystem::path& folder);

/// The plugins that load, and the number that are refused.
Finding probe_plugins();

/// The instruction sets that Castor's kernels can use, from the text of /proc/cpuinfo: `AVX-512, AVX2`; "" if there are
/// none.
std::string simd_of(const std::string& cpuinfo);

}  // namespace castor::check
