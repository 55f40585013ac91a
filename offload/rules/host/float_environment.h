// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>

namespace castor::kernels {

/// Gives the calling thread the default floating-point environment (nearest even, subnormals kept) and its own one back
/// at the end.
///
/// On x86 that is MXCSR, whose flush-to-zero and denormals-are-zero bits libraries like to set; they would make a
/// result depend on who ran it.
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
