// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/memory_resource.h>

namespace castor {

/// Device memory from cudaMalloc. Freeing waits for the device: pool it.
class CudaMemoryResource final : public MemoryResource {
 public:
  explicit CudaMemoryResource(int ordinal) : ordinal_(ordinal) {}
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;

 private:
  const int ordinal_;
};

/// Page-locked host memory of exactly the size asked for (whole pages): mapped, then registered with CUDA, where
/// cudaHostAlloc and torch's caching host allocator round up. Registering costs about 0.35 s per GiB: pool it.
class PinnedResource final : public MemoryResource {
 public:
  /// `ordinal` names the device whose context registers the pages; they are pinned for all devices.
  explicit PinnedResource(int ordinal) : ordinal_(ordinal) {}
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;

 private:
  const int ordinal_;
};

}  // namespace castor
