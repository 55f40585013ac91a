// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>

namespace castor {

/// Memory for chunks from the allocator that the model's own tensors come from, on a device other than the host: ordered on
/// the current compute stream, from a multiple of 512 B on.
///
/// The allocator keeps memory apart by stream. Chunks come from that of a stream on which nothing runs: among activations,
/// which come and go in other sizes, each would leave a hole beside it. Those that are whole pages of what the allocator
/// maps (`use_pages`) come from a stream of their own again: between those of other sizes they would not begin with a page.
class ChunkMemory {
 public:
  explicit ChunkMemory(c10::Device device) : device_(device) {}

  /// Errors: does_not_fit, with what the allocator holds.
  Result<void*> allocate(std::uint64_t n_bytes);
  void free(void* data, std::uint64_t n_bytes);

  /// Asks the allocator for pages of `n_bytes` before the first allocate. Returns the size of those that it has, 0 where
  /// it does not map pages.
  std::uint64_t use_pages(std::uint64_t n_bytes);

 private:
  c10::Stream stream_for(std::uint64_t n_bytes);

  const c10::Device device_;
  std::uint64_t page_bytes_ = 0;
  std::optional<c10::Stream> streams_[2];  ///< of what is no whole pages, and of pages
};

/// What the allocator of the current accelerator holds; all zero where there is none, or where it has not been used.
castor_device_memory device_memory();
void reset_device_peak();

/// cudaStream_t of the stream that the model computes on; null where `device` is the host.
void* compute_stream(c10::Device device);

}  // namespace castor
