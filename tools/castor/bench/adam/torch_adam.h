// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/memory/result.h>
#include <castor/rules/adam.h>

namespace castor::bench {

/// torch's fused AdamW on the CPU.
class TorchAdam {
 public:
  virtual ~TorchAdam() = default;
  /// One update of all elements by `n_threads` threads, from the fp32 gradient.
  virtual void update(unsigned n_threads) = 0;
  /// The same work as Castor's: casts the bf16 gradient to fp32 before the update, and the master to the bf16 weight
  /// after it.
  virtual void update_with_casts(unsigned n_threads) = 0;
};

/// `arrays` and `wide_grad` (as many elements in fp32) are borrowed. Errors: failed if this build has no LibTorch.
Result<std::unique_ptr<TorchAdam>> make_torch_adam(const UpdateArrays& arrays, float* wide_grad);

}  // namespace castor::bench
