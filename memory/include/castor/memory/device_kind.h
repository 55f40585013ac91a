// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor {

enum class DeviceKind : std::uint8_t { cpu, cuda };

}  // namespace castor
