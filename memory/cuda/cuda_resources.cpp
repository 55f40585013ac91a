// SPDX-License-Identifier: Apache-2.0
#include "cuda_resources.h"

#include <castor/memory/bytes.h>
#include <castor/memory/host_resource.h>
#include <castor/memory/shortage.h>

#include "cuda_error.h"
#include "device_guard.h"

namespace castor {
namespace {

/// The error for `n_bytes` that the current device refused.
Error device_full(std::uint64_t n_bytes) {
  (void)cudaGetLastError();
  std::size_t free_bytes = 0, total_bytes = 0;
  (void)cudaMemGetInfo(&free_bytes, &total_bytes);
  return does_not_fit({Tier::device, n_bytes, free_bytes},
                      "device tier: " + format_bytes(n_bytes) + " asked for, the GPU has " + format_bytes(free_bytes) +
                          " free of " + format_bytes(total_bytes) + "; lower `device_budget` or the batch");
}

}  // namespace

Result<void*> CudaMemoryResource::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("CudaMemoryResource: an allocation of 0 bytes");
  const DeviceGuard guard(ordinal_);
  void* data = nullptr;
  const auto status = cudaMalloc(&data, n_bytes);
  if (status == cudaErrorMemoryAllocation) return device_full(n_bytes);
  CASTOR_TRY(cuda_result(status, "device tier: allocating " + format_bytes(n_bytes)));
  return data;
}

void CudaMemoryResource::deallocate(void* data, std::uint64_t) noexcept { (void)cudaFree(data); }

Result<void> PinnedResource::pin(const MemoryBlock& block) const {
  const DeviceGuard guard(ordinal_);
  return cuda_result(cudaHostRegister(block.data, align_up(block.n_bytes, kBufferAlignBytes), cudaHostRegisterPortable),
                     "host tier: pinning " + format_bytes(block.n_bytes), ErrorKind::does_not_fit);
}

Result<void*> PinnedResource::allocate(std::uint64_t n_bytes) {
  HostResource pages;
  CASTOR_ASSIGN(void* data, pages.allocate(n_bytes));
  fault_in({data, n_bytes});
  const auto pinned = pin({data, n_bytes});
  if (!pinned.ok()) {
    pages.deallocate(data, n_bytes);
    return pinned.error();
  }
  return data;
}

void PinnedResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  (void)cudaHostUnregister(data);
  HostResource().deallocate(data, n_bytes);
}

Result<void> PinnedResource::exchange(std::vector<MemoryBlock>& blocks, std::span<const std::uint64_t> sizes) {
  HostResource pages;
  for (const MemoryBlock& block : blocks) (void)cudaHostUnregister(block.data);
  CASTOR_TRY(pages.exchange(blocks, sizes));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto pinned = pin(blocks[i]);
    if (pinned.ok()) continue;
    for (std::size_t k = 0; k < i; ++k) (void)cudaHostUnregister(blocks[k].data);
    for (const auto& [data, n_bytes] : blocks) pages.deallocate(data, n_bytes);
    blocks.clear();
    return pinned;
  }
  return {};
}

}  // namespace castor
