// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "cuda_update_packs.cuh"

namespace castor::kernels {
namespace {

struct AdamRule {
  using Coefficients = AdamCoefficients;

  template <typename Arrays>
  static __device__ void update_one(const AdamCoefficients& c, const Arrays& arrays, std::uint64_t i) {
    AdamElement e = with_moments(c, arrays.load_grad(i), arrays.load(i));
    e.master = next_master(c, e, sqrtf(e.exp_avg_sq));
    arrays.store(i, e, c.rounding_key);
  }
};

class CudaAdam final : public AdamKernel {
 public:
  Result<void> update(Stream& stream, const AdamCoefficients& coefficients, const UpdateArrays& arrays) override {
    return launch_update<AdamRule>(stream, coefficients, arrays, "Adam");
  }
};

}  // namespace

Result<std::unique_ptr<AdamKernel>> make_cuda_adam() {
  return std::unique_ptr<AdamKernel>(std::make_unique<CudaAdam>());
}

}  // namespace castor::kernels
