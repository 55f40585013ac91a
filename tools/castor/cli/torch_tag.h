// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace castor {

/// The tag of this build's LibTorch, as plugins name it: `torch-2.13.0+cpu`; "" for a build without LibTorch.
std::string torch_tag();

}  // namespace castor
