// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/trust_ratio.h>

#include <cmath>

#include "float_environment.h"
#include "elements/trust_element.h"

namespace castor {
namespace {

class HostTrust final : public TrustKernel {
 public:
  Result<void> ratio(Stream&, const TrustTerms& terms, const double* sums, float* ratio) override {
    *ratio = trust_ratio(terms, sums[0], sums[1]);
    return {};
  }
};

}  // namespace

float trust_ratio(const TrustTerms& terms, double weight_sum, double grad_sum) {
  const kernels::DefaultFloatEnvironment environment;
  return kernels::ratio_of_norms(terms, std::sqrt(weight_sum), std::sqrt(grad_sum));
}

std::unique_ptr<TrustKernel> make_host_trust() { return std::make_unique<HostTrust>(); }

}  // namespace castor
