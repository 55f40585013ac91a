// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include <castor/memory/device.h>
#include <castor/memory/result.h>
#include <castor/rules/update_arrays.h>

namespace castor {

/// The hyperparameters of one step of stochastic gradient descent with momentum, as the user gives them.
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool nesterov = false;
  /// Every element of the unscaled gradient is clamped to [−max_value, max_value]; 0 = no clamping.
  double max_value = 0;
  /// LARS: the gradient with its decay is multiplied by the tensor's ratio (trust_ratio.h); 0 = no ratio.
  double trust_coefficient = 0;
  double eps = 0;  ///< of that ratio
  bool operator==(const SgdOptions&) const = default;
};

/// The factors of the kernels: each value is rounded once from fp64 to fp32.
struct SgdCoefficients {
  float grad_scale;  ///< c: unscale × clip
  float decay;       ///< wd
  float momentum;    ///< μ
  float lr;
  bool nesterov;
  float max_value = std::numeric_limits<float>::infinity();  ///< infinity clamps nothing
  const float* trust = nullptr;                              ///< the kernel reads λ from here when it runs; null = 1
};

/// The coefficients of an update whose gradient is first multiplied by `grad_scale`, without λ.
SgdCoefficients sgd_coefficients(const SgdOptions& options, double grad_scale);

/// Updates one tensor:
///   g' = λ·(min(max(g·c, −max_value), max_value) + wd·p), NaN stays NaN
///   b = μ·b + g';  d = b, or with Nesterov's momentum g' + μ·b;  p = p − lr·d
/// with separate multiplies and adds in fp32; b is UpdateArrays::exp_avg, which begins with zeros and exists without
/// momentum too, and exp_avg_sq is null. Subnormals, NaNs, weights and split masters are treated as by AdamKernel;
/// where `moments` has exp_avg in bf16, b is rounded to nearest after the update. Every implementation gives the same
/// bits.
///
/// Source: Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013, equations 1 to
/// 4, in the form of torch.optim.SGD without dampening: lr is outside of the momentum, and the first b is g'.
class SgdKernel {
 public:
  virtual ~SgdKernel() = default;
  /// Queues the update on `stream`; a host kernel runs at once. Requirements, threads and errors: as
  /// AdamKernel::update.
  virtual Result<void> update(Stream& stream, const SgdCoefficients& coefficients, const UpdateArrays& arrays) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<SgdKernel> make_host_sgd();

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<SgdKernel>> make_sgd(const Device& device);

}  // namespace castor
