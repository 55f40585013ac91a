// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/device.h>
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// Sums gradients in fp32, in the order of their arrival. Every implementation gives the same bits: one conversion
/// (exact) and one fp32 addition per element.
class GradAccumulator {
 public:
  virtual ~GradAccumulator() = default;
  /// Queues sum[i] = float(grad[i]) on `stream`; a host kernel runs at once on the calling thread.
  virtual Result<void> widen(Stream& stream, float* sum, const void* grad, DType dtype, std::uint64_t n) = 0;
  /// Queues sum[i] += float(grad[i]).
  virtual Result<void> add(Stream& stream, float* sum, const void* grad, DType dtype, std::uint64_t n) = 0;
};

/// The plain loops on the host.
std::unique_ptr<GradAccumulator> make_host_accumulator();

/// The kernels for `device`: the host's loops on the CPU, CUDA kernels on a GPU.
Result<std::unique_ptr<GradAccumulator>> make_accumulator(const Device& device);

}  // namespace castor
