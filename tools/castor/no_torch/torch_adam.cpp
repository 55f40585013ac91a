// SPDX-License-Identifier: Apache-2.0
#include "bench/adam/torch_adam.h"

namespace castor::bench {

Result<std::unique_ptr<TorchAdam>> make_torch_adam(const UpdateArrays&, float*) {
  return Error{ErrorKind::failed, "this castor was built without LibTorch, so torch's fused AdamW is left out"};
}

}  // namespace castor::bench
