// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "elements/lamb_element.h"
#include "cuda_update_packs.cuh"

namespace castor::kernels {
namespace {

struct LambRule {
  using Coefficients = LambCoefficients;

  template <typename Arrays>
  static __device__ void update_one(const LambCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c.adam, arrays.load_grad(i), arrays.load(i));
    e.master = e.master - lamb_rate(c) * lamb_direction(c.adam, e, sqrtf(e.exp_avg_sq));
    arrays.store(i, e, c.adam.rounding_key);
  }
};

class CudaLamb final : public LambKernel {
 public:
  Result<void> update(Stream& stream, const LambCoefficients& coefficients, const UpdateArrays& arrays) override {
    return launch_update<LambRule>(stream, coefficients, arrays, "LAMB");
  }
};

}  // namespace

Result<std::unique_ptr<LambKernel>> make_cuda_lamb() {
  return std::unique_ptr<LambKernel>(std::make_unique<CudaLamb>());
}

}  // namespace castor::kernels
