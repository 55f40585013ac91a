// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace castor::kernels {

/// Gives the calling thread the default floating-point environment (nearest even, subnormals kept); the destructor
/// restores the thread's own.
///
/// On x86 that is MXCSR. Libraries set its flush-to-zero and denormals-are-zero bits, which would make results depend
/// on the thread that computes them.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    (void)std::fegetenv(&callers_);
    (void)std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { (void)std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t callers_;
};

}  // namespace castor::kernels
