// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <castor/memory/result.h>

namespace castor {

/// Says why the call before, which has left its reason in errno, could not write `target`, and what to do.
Error cannot_write(const std::string& target);

}  // namespace castor
