// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace castor {

/// Memory for chunks from the allocator that the model's own tensors come from, on a device other than the host: ordered on
/// the current compute stream, from a multiple of 512 B on.
///
/// The allocator keeps memory apart by stream. Chunks come from those of streams on which nothing runs: among activations,
/// which come and go in other sizes, each would leave a hole beside it. What is a whole number of pages comes from a stream
/// for pages of that size.
class ChunkMemory {
 public:
  explicit ChunkMemory(c10::Device device) : device_(device) {}

  /// Errors: does_not_fit, with what the allocator holds.
  Result<void*> allocate(std::uint64_t n_bytes);
  void free(void* data, std::uint64_t n_bytes);

  /// From now on sizes that `page_bytes` divides, and no size before it, come in such pages. False where the allocator
  /// has none of that size.
  bool use_pages(std::uint64_t page_bytes);

 private:
  /// Where memory of some sizes comes from.
  struct Source {
    std::uint64_t page_bytes = 0;  ///< 0: of all sizes
    c10::Stream stream;
    std::uint64_t n_used = 0;  ///< allocations that have not been given back
  };

  Source& source_of(std::uint64_t n_bytes);
  Source source_with(std::uint64_t page_bytes) const;
  Result<void*> allocate(Source& source, std::uint64_t n_bytes);
  void free(Source& source, void* data);

  const c10::Device device_;
  std::vector<Source> in_pages_;
  std::optional<Source> other_;
};

/// What the allocator of the current accelerator holds; all zero where there is none, or where it has not been used.
castor_device_memory device_memory();
void reset_device_peak();

/// cudaStream_t of the stream that the model computes on; null where `device` is the host.
void* compute_stream(c10::Device device);

}  // namespace castor
