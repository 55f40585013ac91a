// SPDX-License-Identifier: Apache-2.0
#include <castor/models/model.h>

#include "cross_entropy.h"

namespace castor {

at::Tensor Model::loss(const Batch& batch) {
  const at::Tensor y = logits(batch.input);
  return cross_entropy(y.view({-1, y.size(-1)}), batch.target.reshape({-1}));
}

}  // namespace castor
