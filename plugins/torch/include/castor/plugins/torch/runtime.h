// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <cstdint>
#include <string>

namespace castor {

/// The version and C++ ABI of this build's LibTorch, for plugins that link it: `torch-2.13.0+cxx11`.
std::string torch_build_tag();

/// True where this LibTorch has the CUDA backend and the machine a GPU.
bool torch_has_cuda();

/// Makes LibTorch choose operators that repeat their bits, at some cost (measured 11 % on a GPU). Call it before the
/// first operator on the device: cuBLAS reads its workspace from the environment (CUBLAS_WORKSPACE_CONFIG, set here
/// unless the user has) once.
void set_determinism(bool on);

/// Threads of LibTorch's operators on the host; 0 leaves LibTorch's choice. CPU results depend on it (the weight
/// gradient of a layer norm does).
void set_threads(int n);

/// The share of a device of `total_bytes` that LibTorch's CUDA allocator may take, so that it stays within `budget_bytes`
/// when it rounds up: at most 1.
double allocator_share(std::uint64_t budget_bytes, std::uint64_t total_bytes);

/// Limits LibTorch's CUDA allocator to `budget_bytes` of the device's `total_bytes`, in segments that grow, so that
/// freed room can be used for any size. Call it before the device is used: later the limit has no effect, and
/// allocator_share is the argument of torch's own call. A budget of `total_bytes` or more sets no
/// limit.
/// Errors: failed, where this LibTorch has no such allocator.
Result<void> configure_device_allocator(std::uint64_t budget_bytes, std::uint64_t total_bytes);
/// True in a thread that takes memory for a chunk from LibTorch's allocator, where a shortage is no error yet.
bool allocates_chunk();


}  // namespace castor
