// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace castor {

/// Gives LibTorch kernels for the meta device, as long as it lives, of operators that have none in C++ or another one
/// than a GPU's: attention keeps what the flash kernel keeps (queries, keys, values, the result and a number per row)
/// and no scores; norms keep a mean and a deviation per row.
class MetaKernels {
 public:
  MetaKernels();
  ~MetaKernels();

 private:
  struct Libraries;
  const std::unique_ptr<Libraries> libraries_;
};

}  // namespace castor
