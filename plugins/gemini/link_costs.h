// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/device.h>
#include <castor/plan/links.h>

#include "gemini_options.h"

namespace castor {

/// What plans shall take the links for. On a GPU they are measured, which takes under a second and, with `nvme`, writes 256
/// MiB; where the device is the host, where the machine has no room for it, or where a folder fails (which its first use
/// will report), they are what is usual.
LinkCosts link_costs(Device& device, const GeminiOptions& options);

}  // namespace castor
