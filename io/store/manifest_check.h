// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "manifest.h"

namespace castor {

/// The first way in which `manifest` is not well formed (see Manifest): a clause with the figures, `its key 3 comes
/// after key 7`; nothing where it is well formed.
std::optional<std::string> manifest_defect(const Manifest& manifest);

}  // namespace castor
