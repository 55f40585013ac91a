// SPDX-License-Identifier: Apache-2.0
#include "idle_kernels.h"

namespace castor::kernels {
namespace {

/// An update by any rule.
template <class Kernel, class Coefficients>
class IdleUpdate final : public Kernel {
 public:
  Result<void> update(Stream& stream, const Coefficients&, const UpdateArrays& arrays) override {
    stream.touch(touched_bytes(arrays));
    return {};
  }
};

class IdleGradNorm final : public GradNormKernel {
 public:
  Result<void> sum_of_squares(Stream&, const void*, DType, std::uint64_t, double* sum) override {
    *sum = 0;
    return {};
  }
};

class IdleDirectionNorm final : public DirectionNormKernel {
 public:
  Result<void> add(Stream& stream, const LambCoefficients&, const MeasuredPart& part, double*) override {
    stream.touch(measured_bytes(part.arrays));
    return {};
  }
};

class IdleTrust final : public TrustKernel {
 public:
  Result<void> ratio(Stream&, const TrustTerms&, const double*, float*) override { return {}; }
};

class IdleAccumulator final : public GradAccumulator {
 public:
  Result<void> widen(Stream&, float*, const void*, DType, std::uint64_t) override { return {}; }
  Result<void> add(Stream&, float*, const void*, DType, std::uint64_t) override { return {}; }
};

}  // namespace

std::unique_ptr<AdamKernel> make_idle_adam() { return std::make_unique<IdleUpdate<AdamKernel, AdamCoefficients>>(); }

std::unique_ptr<SgdKernel> make_idle_sgd() { return std::make_unique<IdleUpdate<SgdKernel, SgdCoefficients>>(); }

std::unique_ptr<LambKernel> make_idle_lamb() { return std::make_unique<IdleUpdate<LambKernel, LambCoefficients>>(); }

std::unique_ptr<GradNormKernel> make_idle_grad_norm() { return std::make_unique<IdleGradNorm>(); }

std::unique_ptr<DirectionNormKernel> make_idle_direction_norm() { return std::make_unique<IdleDirectionNorm>(); }

std::unique_ptr<TrustKernel> make_idle_trust() { return std::make_unique<IdleTrust>(); }

std::unique_ptr<GradAccumulator> make_idle_accumulator() { return std::make_unique<IdleAccumulator>(); }

}  // namespace castor::kernels
