// SPDX-License-Identifier: Apache-2.0
#include "torch_tag.h"

#include <castor/plugins/torch/runtime.h>

namespace castor {

std::string torch_tag() { return torch_build_tag(); }

}  // namespace castor
