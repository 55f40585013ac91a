// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include <castor/memory/device.h>
#include <castor/memory/result.h>
#include <castor/rules/update_arrays.h>

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
  /// Every element of the unscaled gradient is clamped to [−max_value, max_value]; 0 = no clamping.
  double max_value = 0;
  bool operator==(const AdamOptions&) const = default;
};

/// The factors of the kernels: each value is computed once per tensor and step in fp64 and rounded once to fp32, so
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
  std::uint32_t rounding_key = 0;  ///< of this tensor and update; used where exp_avg_sq is rounded at random
  float max_value = std::numeric_limits<float>::infinity();  ///< infinity clamps nothing
};

/// The coefficients of the `t`-th update of a tensor (t = 1, 2, …) whose gradient is first multiplied by `grad_scale`;
/// the same bits on every machine.
/// Requires: t > 0 (ContractViolation).
AdamCoefficients adam_coefficients(const AdamOptions& options, std::uint64_t t, double grad_scale);

/// Updates one tensor:
///   g' = min(max(g·c, −max_value), max_value), NaN stays NaN            (Adam with L2: then g' = g' + wd·p)
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
  /// Queues the update on `stream`; a host kernel runs at once, so the caller waits for the arrays first. `n` = 0 does
  /// nothing.
  ///
  /// Requires: the arrays do not overlap, and each starts at a multiple of its element's size.
  /// Threads: any number at a time, each with its own part of the arrays; the parts change no bit. A kernel with a team
  /// is called by one thread at a time.
  /// Errors: failed, where the launch was refused or the GPU cannot reach the master.
  virtual Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const UpdateArrays& arrays) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<AdamKernel> make_host_adam();

/// The same by a team of `n_threads` > 0 threads, part by part; update waits for the team. The bits are the same.
/// Errors: failed, where the system refuses a thread.
Result<std::unique_ptr<AdamKernel>> make_host_adam(unsigned n_threads);

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<AdamKernel>> make_adam(const Device& device);

}  // namespace castor
