// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/buffer.h>

#include <string>

namespace castor {

BufferView BufferView::part(std::uint64_t offset_bytes, std::uint64_t part_bytes) const {
  if (offset_bytes > n_bytes || part_bytes > n_bytes - offset_bytes)
    throw ContractViolation("part " + std::to_string(offset_bytes) + "+" + std::to_string(part_bytes) +
                            " of a view of " + std::to_string(n_bytes) + " bytes");
  return {data + offset_bytes, part_bytes};
}

Result<Buffer> Buffer::allocate(MemoryResource& resource, std::uint64_t n_bytes) {
  CASTOR_ASSIGN(void* data, resource.allocate(n_bytes));
  return Buffer(resource, data, n_bytes);
}

Buffer::~Buffer() {
  if (data_) resource_->deallocate(data_, n_bytes_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(resource_, other.resource_);
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
}

}  // namespace castor
