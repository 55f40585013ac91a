// SPDX-License-Identifier: Apache-2.0
// Units of the tests of stripes.
#pragma once

#include <cstdint>

namespace castor::test {

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kMs = 1'000'000;  // in nanoseconds

}  // namespace castor::test
