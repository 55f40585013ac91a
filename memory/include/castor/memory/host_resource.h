// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/memory_resource.h>

namespace castor {

/// Pageable host memory, a whole number of pages per allocation, straight from the kernel: what is given back leaves
/// the process.
class HostResource final : public MemoryResource {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
};

}  // namespace castor
