// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace castor::check {

/// One thing that was looked at: whether it is there, what was found, and what to do if it is not.
struct Finding {
  std::string name;  ///< key in JSON: `io_uring`
  bool ok = false;
  std::string detail;
};

/// What was compiled in: versions, compiler, LibTorch, NCCL.
std::vector<Finding> probe_build();

/// GPUs, memory, memlock limit, SIMD, io_uring: each by trying it or by asking the kernel.
std::vector<Finding> probe_machine();

/// Direct I/O, nameless files and free space of `folder`, by writing one block.
std::vector<Finding> probe_folder(const std::filesystem::path& folder);

/// The plugins that can be loaded, and how many were refused.
Finding probe_plugins();

/// The instruction sets that Castor's kernels can use, from the text of /proc/cpuinfo: `AVX-512, AVX2`; "" where
/// there is none of them.
std::string simd_of(const std::string& cpuinfo);

}  // namespace castor::check
