// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor {

/// Where a model computes. On `cpu` the device tier is a budgeted pool of host memory, and all tiers work as on a GPU.
enum class DeviceKind : std::uint8_t { cpu, cuda };

}  // namespace castor
