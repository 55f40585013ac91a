// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <castor/memory/memory_resource.h>

namespace castor {

/// Borrowed bytes on any tier; their owner keeps them valid.
struct BufferView {
  std::byte* data = nullptr;
  std::uint64_t n_bytes = 0;

  /// The `n_bytes` from `offset_bytes` on. Requires: they are inside the view (ContractViolation).
  BufferView part(std::uint64_t offset_bytes, std::uint64_t n_bytes) const;
};

/// Owns one allocation of a MemoryResource; the destructor gives it back.
class Buffer {
 public:
  Buffer() = default;
  /// Allocates `n_bytes` from `resource`, which must outlive the buffer. Errors: those of the resource.
  static Result<Buffer> allocate(MemoryResource& resource, std::uint64_t n_bytes);

  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  std::uint64_t n_bytes() const { return n_bytes_; }
  explicit operator bool() const { return data_ != nullptr; }
  BufferView view() const { return {data_, n_bytes_}; }

 private:
  Buffer(MemoryResource& resource, void* data, std::uint64_t n_bytes)
      : resource_(&resource), data_(static_cast<std::byte*>(data)), n_bytes_(n_bytes) {}
  void swap(Buffer& other) noexcept;

  MemoryResource* resource_ = nullptr;
  std::byte* data_ = nullptr;
  std::uint64_t n_bytes_ = 0;
};

}  // namespace castor
