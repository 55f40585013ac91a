// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/host_resource.h>

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include <castor/memory/bytes.h>

namespace castor {

Result<void*> HostResource::allocate(std::uint64_t n_bytes) {
  if (n_bytes == 0) throw ContractViolation("HostResource: an allocation of 0 bytes");
  void* data =
      ::mmap(nullptr, align_up(n_bytes, kBufferAlignBytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data != MAP_FAILED) return data;
  const auto reason = std::generic_category().message(errno);
  return Error{ErrorKind::does_not_fit, "host tier: the kernel gave no " + format_bytes(n_bytes) + " of memory (" +
                                            reason + "); lower --host-budget or free memory"};
}

void HostResource::deallocate(void* data, std::uint64_t n_bytes) noexcept {
  ::munmap(data, align_up(n_bytes, kBufferAlignBytes));
}

}  // namespace castor
