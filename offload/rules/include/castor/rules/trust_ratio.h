// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/rules/direction_norm.h>
#include <castor/rules/grad_norm.h>

namespace castor {

/// The factor by which LARS scales the gradient of one tensor, given the norms of its weights and of its gradient:
///   λ = coefficient·‖w‖ / (grad_scale·‖g‖ + weight_decay·‖w‖ + eps), and 1 where either norm is 0 or nan.
/// Computed in fp64 from the sums of GradNormKernel and rounded once to fp32, so that all tiers have the same bits.
///
/// ‖w‖ is the norm of the weights with which the model computes. Where these have 16 bits it differs from the norm of
/// the masters, in bf16 by less than 2^-8 of it. In return the ratio needs only data that are resident for the update
/// of a tensor's first part.
///
/// LAMB scales by λ = ‖p‖/‖r‖, of masters and direction (direction_norm.h): the same formula with a coefficient of 1
/// and r for g; r contains the other terms.
///
/// Source: You, Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017: the local learning rate,
/// with eps.
struct TrustTerms {
  double coefficient = 0;
  double grad_scale = 1;
  double weight_decay = 0;
  double eps = 0;
};

/// A tensor in memory: `n` weights and as many elements of its gradient.
struct TrustedTensor {
  const void* weight = nullptr;
  DType weight_dtype = DType::f32;
  const void* grad = nullptr;
  DType grad_dtype = DType::f32;
  std::uint64_t n = 0;
};

class TrustKernel {
 public:
  virtual ~TrustKernel() = default;
  /// Queues on `stream` the ratio of two sums of squares, of the weights and of the gradient (for LAMB of masters and
  /// direction), and its write to `*ratio`. All three are in memory that the kernel reaches; a host kernel runs at
  /// once.
  ///
  /// Threads: any number at a time. Errors: failed, where the launch was refused or the GPU cannot reach the sums.
  virtual Result<void> ratio(Stream& stream, const TrustTerms& terms, const double* sums, float* ratio) = 0;
};

std::unique_ptr<TrustKernel> make_host_trust();
/// The kernel for `device`.
Result<std::unique_ptr<TrustKernel>> make_trust(const Device& device);

/// The ratio of the two sums, on the calling thread.
float trust_ratio(const TrustTerms& terms, double weight_sum, double grad_sum);

/// The ratios of a model's tensors in memory of one device, from which the kernels of their updates read them.
///
/// Memory: 24 B a tensor. Threads: one at a time, with all calls on one stream, as GradNormKernel.
class TrustRatios {
 public:
  /// Errors: does_not_fit; failed, as make_trust.
  static Result<std::unique_ptr<TrustRatios>> make(Device& device, std::uint32_t n_tensors);

  /// The address of the ratio of tensor number `id`, which `measure` writes.
  const float* of(std::uint32_t id) const { return &slot(id)->ratio; }

  /// Queues norms and ratio of tensor number `id` on `stream`. Errors: those of the kernels.
  Result<void> measure(Stream& stream, std::uint32_t id, const TrustTerms& terms, const TrustedTensor& tensor);

  /// The same for LAMB, part by part: queues the norms of a part of the tensor, and after the last part the ratio.
  /// Requires, errors: as DirectionNormKernel::add.
  Result<void> measure(Stream& stream, std::uint32_t id, const TrustTerms& terms, const LambCoefficients& coefficients,
                       const MeasuredPart& part);

 private:
  struct Slot {
    double sums[2];
    float ratio;
  };
  Slot* slot(std::uint32_t id) const { return reinterpret_cast<Slot*>(slots_.data()) + id; }
  TrustRatios(Buffer slots, std::unique_ptr<GradNormKernel> norm, std::unique_ptr<DirectionNormKernel> directions,
              std::unique_ptr<TrustKernel> trust);

  Buffer slots_;  ///< by tensor
  std::unique_ptr<GradNormKernel> norm_;
  std::unique_ptr<DirectionNormKernel> directions_;
  std::unique_ptr<TrustKernel> trust_;
};

}  // namespace castor
