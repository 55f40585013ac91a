// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/model_host.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <optional>

#include "allocator_limit.h"

namespace castor {

/// Memory for chunks from the allocator of the model's own tensors, on a device other than the host: ordered on the
/// current compute stream, starting at a multiple of 512 B.
///
/// The allocator keeps memory apart by stream. Chunks are allocated on a stream that runs no work: among activations,
/// which are allocated and freed in other sizes, each chunk would leave a hole beside it.
class ChunkMemory final : public DeviceCalls {
 public:
  /// `device` has a number, unless it is the host.
  explicit ChunkMemory(c10::Device device) : device_(device), limit_(device) {}

  /// Errors: does_not_fit, with the bytes that the allocator holds.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) override;
  Result<castor_device_memory> memory() override;
  void reset_peak() override;
  void limit(std::uint64_t n_bytes) override { limit_.set(n_bytes); }

 private:
  const c10::Device device_;
  AllocatorLimit limit_;
  std::optional<c10::Stream> stream_;  ///< from the first allocation on
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
