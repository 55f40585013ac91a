// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::testing {

// Values that distinguish a multiplication and an addition from a fused one: x² = 1 + 2^-11 + 2^-24 rounds to kSquare
// (a tie, to even), so x² − kSquare is 0 in two operations and 2^-24 in one.
inline constexpr float kX = 1 + 0x1p-12f;
inline constexpr float kSquare = 1 + 0x1p-11f;

}  // namespace castor::testing
