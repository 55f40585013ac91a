// SPDX-License-Identifier: Apache-2.0
#include "cli/torch_tag.h"

namespace castor {

std::string torch_tag() { return ""; }

}  // namespace castor
