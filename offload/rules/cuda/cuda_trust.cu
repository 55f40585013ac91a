// SPDX-License-Identifier: Apache-2.0
#include "cuda_kernels.h"
#include "elements/trust_element.h"
#include "cuda_launch.h"

namespace castor::kernels {
namespace {

__global__ void write_ratio(const TrustTerms terms, const double* sums, float* ratio) {
  *ratio = ratio_of_norms(terms, sqrt(sums[0]), sqrt(sums[1]));
}

class CudaTrust final : public TrustKernel {
 public:
  Result<void> ratio(Stream& stream, const TrustTerms& terms, const double* sums, float* ratio) override {
    CASTOR_ASSIGN(const int device, device_of(sums, "trust ratio on the GPU: the sums"));
    const CurrentDevice current(device);
    return cuda_result(launch(stream, 1, 1, write_ratio, terms, sums, ratio), "trust ratio on the GPU");
  }
};

}  // namespace

Result<std::unique_ptr<TrustKernel>> make_cuda_trust() {
  return std::unique_ptr<TrustKernel>(std::make_unique<CudaTrust>());
}

}  // namespace castor::kernels
