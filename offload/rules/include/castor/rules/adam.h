// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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

/// The dtypes of exp_avg and exp_avg_sq. Kernels widen the values that they read, and round once, after the whole
/// update.
///
/// exp_avg in bf16 is rounded to nearest. exp_avg_sq cannot be, because it decays by less than half a unit: it is
/// rounded up or down at random, the more often up the nearer the upper value is. The random bits follow from the seed,
/// the tensor, the number of its update and the element alone.
enum class AdamMoments : std::uint8_t {
  f32,    ///< both fp32
  mixed,  ///< exp_avg in bf16, exp_avg_sq in fp32
  bf16,   ///< both bf16
};

constexpr DType exp_avg_dtype(AdamMoments moments) { return moments == AdamMoments::f32 ? DType::f32 : DType::bf16; }
constexpr DType exp_avg_sq_dtype(AdamMoments moments) {
  return moments == AdamMoments::bf16 ? DType::bf16 : DType::f32;
}

/// The AdamCoefficients::rounding_key of the `t`-th update of tensor number `tensor`.
std::uint32_t rounding_key(std::uint64_t seed, std::uint32_t tensor, std::uint64_t t);

/// The arrays of one update, by every rule. All have `n` elements and are on the tier where the kernel runs.
///
/// A split master is kept as its low 16 bits; together with the weight in bf16 they restore it exactly. Rules with one
/// moment keep it in exp_avg, and exp_avg_sq is null.
struct AdamArrays {
  float* master = nullptr;     ///< read and written; null where it is split
  void* exp_avg = nullptr;     ///< read and written; its dtype follows from `moments`
  void* exp_avg_sq = nullptr;  ///< read and written; likewise
  const void* grad = nullptr;  ///< read; `grad_dtype`
  void* weight = nullptr;      ///< written: the master rounded to `weight_dtype`; read too where the master is split
  DType grad_dtype = DType::f32;
  DType weight_dtype = DType::f32;
  std::uint64_t n = 0;
  std::uint16_t* master_low = nullptr;  ///< the low bits of a split master, read and written; else null
  AdamMoments moments = AdamMoments::f32;
  std::uint32_t first = 0;  ///< the number of the first element in its tensor, modulo 2^32
  /// The old states, and the old weight, are read this many bytes from the new ones and stay as they are; 0 = the
  /// update is in place.
  std::ptrdiff_t old_states = 0, old_weight = 0;

  /// The elements from `first` on, `count` of them. Requires: they exist.
  AdamArrays part(std::uint64_t first, std::uint64_t count) const;
};

/// Elements that a thread of a team updates, by any rule, before it looks for the most urgent update: 0.9 MiB of fp32
/// states, 16-bit gradients and weights, about 0.1 ms.
inline constexpr std::uint64_t kAdamPartElements = std::uint64_t{32} << 10;

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
  virtual Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const AdamArrays& arrays) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<AdamKernel> make_host_adam();

/// The same by a team of `n_threads` > 0 threads, part by part; update waits for the team. The bits are the same.
/// Errors: failed, where the system refuses a thread.
Result<std::unique_ptr<AdamKernel>> make_host_adam(unsigned n_threads);

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<AdamKernel>> make_adam(const Device& device);

/// Rounds `n` masters to `dtype` as the update does; fp32 is copied. Host memory.
void round_weights(const float* master, DType dtype, void* weight, std::uint64_t n);

/// The reverse. Host memory.
void widen_weights(const void* weight, DType dtype, float* out, std::uint64_t n);

/// Splits `n` masters, whose NaNs are canonical, into bf16 weights and low bits. Host memory.
void split_masters(const float* master, std::uint16_t* weight, std::uint16_t* master_low, std::uint64_t n);
/// The reverse. Host memory.
void join_masters(const std::uint16_t* weight, const std::uint16_t* master_low, float* master, std::uint64_t n);

/// One master rounded to bf16: nearest, ties away from zero, NaN becomes 0x7fc0 with its sign dropped.
std::uint16_t round_to_bf16(float value);
/// One master rounded to fp16: nearest, ties to even, overflow to infinity, NaN becomes 0x7e00.
std::uint16_t round_to_f16(float value);
float bf16_to_float(std::uint16_t bits);
float f16_to_float(std::uint16_t bits);

}  // namespace castor
