// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/device.h>
#include <castor/memory/result.h>
#include <castor/rules/adam.h>

namespace castor {

/// The hyperparameters of one step of LAMB, as the user gives them.
struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool operator==(const LambOptions&) const = default;
};

/// The factors of the kernels: each value is rounded once from fp64 to fp32.
struct LambCoefficients {
  AdamCoefficients adam;  ///< those of AdamW with an lr of 1: s = 1/(1 − beta1^t), and decay = wd
  float lr;
  const float* trust = nullptr;  ///< the kernel reads λ from here when it runs; null = 1
};

/// The coefficients of the `t`-th update of a tensor whose gradient is first multiplied by `grad_scale`, without λ.
/// Requires: t > 0 (ContractViolation).
LambCoefficients lamb_coefficients(const LambOptions& options, std::uint64_t t, double grad_scale);

/// Updates one tensor:
///   m, v and d by Adam's lines (adam.h);  r = s·(m/d) + wd·p;  p = p − (lr·λ)·r
/// with separate multiplies and adds in fp32; λ = ‖p‖/‖r‖ over the whole tensor (trust_ratio.h), with the old p.
/// Subnormals, NaNs, moments, weights and split masters are treated as by AdamKernel. Every implementation gives the
/// same bits.
///
/// Source: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", 2020, algorithm 2,
/// where φ leaves a norm as it is.
class LambKernel {
 public:
  virtual ~LambKernel() = default;
  /// Queues the update on `stream`; a host kernel runs at once. Requirements, threads and errors: as
  /// AdamKernel::update.
  virtual Result<void> update(Stream& stream, const LambCoefficients& coefficients, const UpdateArrays& arrays) = 0;
};

/// The plain loop on the host, on the calling thread.
std::unique_ptr<LambKernel> make_host_lamb();

/// The kernel for `device`: the host's loop on the CPU, a CUDA kernel on a GPU.
Result<std::unique_ptr<LambKernel>> make_lamb(const Device& device);

}  // namespace castor
