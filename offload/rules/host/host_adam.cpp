// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/adam.h>

#include "adam_loops.h"
#include "float_environment.h"

namespace castor {
namespace {

class HostAdam final : public AdamKernel {
 public:
  Result<void> update(Stream&, const AdamCoefficients& coefficients, const UpdateArrays& arrays) override {
    const kernels::DefaultFloatEnvironment environment;
    kernels::update_by_vectors(coefficients, arrays);
    return {};
  }
};

}  // namespace

std::unique_ptr<AdamKernel> make_host_adam() { return std::make_unique<HostAdam>(); }

}  // namespace castor
