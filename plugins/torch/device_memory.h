// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/model_host.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace castor {

/// Memory for chunks from the allocator of the model's own tensors, on a device other than the host: ordered on the
/// current compute stream, starting at a multiple of 512 B.
///
/// The allocator keeps memory apart by stream. Chunks are allocated on streams that run no work: among activations,
/// which are allocated and freed in other sizes, each chunk would leave a hole beside it. A whole number of pages is
/// allocated on a stream for pages of that size.
class ChunkMemory final : public DeviceCalls {
 public:
  /// `device` has a number, unless it is the host.
  explicit ChunkMemory(c10::Device device) : device_(device) {}

  /// Errors: does_not_fit, with the bytes that the allocator holds.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) override;
  Result<castor_device_memory> memory() override;
  void reset_peak() override;

  /// Allocates sizes that `page_bytes` divides, and no page size given before it, in such pages from now on. 0 where
  /// the allocator has none of that size.
  std::int32_t use_pages(std::uint64_t page_bytes) override;

 private:
  /// The stream on which some sizes are allocated.
  struct Source {
    std::uint64_t page_bytes = 0;  ///< 0: of all sizes
    c10::Stream stream;
    std::uint64_t n_used = 0;  ///< allocations that have not been given back
  };

  Source& source_of(std::uint64_t n_bytes);
  Source source_with(std::uint64_t page_bytes) const;
  Result<void*> allocate(Source& source, std::uint64_t n_bytes);
  void deallocate(Source& source, void* data);

  const c10::Device device_;
  std::vector<Source> in_pages_;
  std::optional<Source> other_;
};

/// `device` with the number of the current device where it has none; the host has no number. Initialises nothing.
c10::Device numbered(c10::Device device);

/// The bytes that the allocator of `device`, or of the current accelerator, holds; all zero where that is the host, or
/// where it has not been used.
castor_device_memory device_memory(c10::Device device);
castor_device_memory device_memory();
void reset_device_peak(c10::Device device);

/// cudaStream_t of the stream that the model computes on; null where `device` is the host.
void* compute_stream(c10::Device device);

}  // namespace castor
