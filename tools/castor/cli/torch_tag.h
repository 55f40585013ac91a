// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace castor {

/// What this build's LibTorch is, as plugins name it: `torch-2.13.0+cpu`; "" where it was built without.
std::string torch_tag();

}  // namespace castor
