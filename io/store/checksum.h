// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/buffer.h>

namespace castor {

/// XXH3, 64 bits, seed 0 (Y. Collet, xxHash 0.8): detects corruption by drives and cables; no protection against an
/// attacker.
std::uint64_t checksum(BufferView bytes);

}  // namespace castor
