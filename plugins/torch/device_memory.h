// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/dlpack.h>  // before abi.h, so that its include guard decides for both

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace castor {

/// The allocator that the model's own tensors come from, for a device other than the host. Memory is ordered on the
/// current compute stream and starts at a multiple of 512 B.

/// Errors: does_not_fit, with what the allocator holds.
Result<void*> device_alloc(c10::Device device, std::uint64_t n_bytes);
void device_free(c10::Device device, void* data);

/// What the allocator of the current accelerator holds; all zero where there is none, or where it has not been used.
castor_device_memory device_memory();
void reset_device_peak();

/// cudaStream_t of the stream that the model computes on; null where `device` is the host.
void* compute_stream(c10::Device device);

}  // namespace castor
