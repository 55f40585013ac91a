// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/device.h>
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>

namespace castor {

/// The hyperparameters of one step, as the user gives them.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// AdamW (Loshchilov and Hutter 2019); false = L2 added to the gradient (Kingma and Ba 2015).
  bool decoupled_decay = true;
  bool operator==(const AdamOptions&) const = default;
};

/// What the kernels multiply with: every value computed once per tensor and step in fp64 and rounded once to fp32, so
/// that all tiers use the same bits.
struct AdamCoefficients {
  float grad_scale;  ///< c: unscale × clip
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float eps;
  float rsqrt_bias2;  ///< r2 = 1/sqrt(1 − beta2^t)
  float step_size;    ///< s = lr/(1 − beta1^t)
  float decay;        ///< lr·weight_decay (AdamW), or weight_decay (Adam)
  bool decoupled_decay;
};

/// The coefficients of the `t`-th update of a tensor (t = 1, 2, …) whose gradient is first multiplied by `grad_scale`;
/// the same bits on every machine.
/// Requires: t > 0 (ContractViolation).
AdamCoefficients adam_coefficients(const AdamOptions& options, std::uint64_t t, double grad_scale);

/// The arrays of one update, all of `n` elements, all on the tier where the kernel runs.
struct AdamArrays {
  float* master = nullptr;      ///< read and written
  float* exp_avg = nullptr;     ///< read and written
  float* exp_avg_sq = nullptr;  ///< read and written
  const void* grad = nullptr;   ///< read; `grad_dtype`
  void* weight = nullptr;       ///< written: the master rounded to `weight_dtype`
  DType grad_dtype = DType::f32;
  DType weight_dtype = DType::f32;
  std::uint64_t n = 0;

  /// The elements from `first` on, `count` of them. Requires: they exist.
  AdamArrays part(std::uint64_t first, std::uint64_t count) const;
};

/// Elements that a thread of the host updates before it asks what is most urgent, where many update: 0.9 MiB of fp32
/// states, 16-bit gradients and weights, about 0.1 ms.
inline constexpr std::uint64_t kAdamPartElements = std::uint64_t{32} << 10;

/// Updates one tensor:
///   g' = g·c            (Adam with L2: g' = g·c + wd·p)
///   m = b1·m + (1−b1)·g';  v = b2·v + ((1−b2)·g')·g';  d = sqrt(v)·r2 + eps
///   p = p − (lr·wd)·p   (AdamW only);  p = p − s·(m/d)
/// with separate multiplies and adds in fp32, IEEE division and square root, subnormals kept whatever the caller's
/// MXCSR says. A NaN in master or moments is stored as 0x7fc00000, since processors make NaNs of different bits. The
/// weight is the master rounded to bf16 (nearest, ties away from zero, NaN canonical 0x7fc0), fp16 (nearest even) or
/// copied. Every implementation gives the same bits.
///
/// Source: Kingma and Ba, "Adam", 2015, algorithm 1, with epsilon outside the corrected root; Loshchilov and Hutter,
/// "Decoupled Weight Decay Regularization", 2019, algorithm 2.
class AdamKernel {
 public:
  virtual ~AdamKernel() = default;
  /// Queues the update on `stream`; a host kernel runs at once, and the calling thread has waited for the arrays.
  /// `n` = 0 does nothing.
  ///
  /// Requires: the arrays do not overlap, and each starts at a multiple of its element's size.
  /// Threads: any number at a time, each with its own part of the arrays, which changes no bit; of a team one at a time.
  /// Errors: failed, where the launch was refused or the master is out of the GPU's reach.
  virtual Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<AdamKernel> make_host_adam();

/// The same by a team of `n_threads` > 0 threads, part by part, for which update waits. The same bits. Errors: failed, where
/// the system gives no more threads.
Result<std::unique_ptr<AdamKernel>> make_host_adam(unsigned n_threads);

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<AdamKernel>> make_adam(const Device& device);

/// Rounds `n` masters to `dtype` as the update does; fp32 is copied. Host memory.
void round_weights(const float* master, DType dtype, void* weight, std::uint64_t n);

/// One master rounded to bf16: nearest, ties away from zero, NaN becomes 0x7fc0 with its sign dropped.
std::uint16_t round_to_bf16(float value);
/// One master rounded to fp16: nearest, ties to even, overflow to infinity, NaN becomes 0x7e00.
std::uint16_t round_to_f16(float value);
float bf16_to_float(std::uint16_t bits);
float f16_to_float(std::uint16_t bits);

}  // namespace castor
