// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "sanitizers.h"

namespace castor::test {

/// The number of random cases of a test: CASTOR_N_SEEDS, where suite soak sets it; else `usual`, or an eighth of it
/// under a sanitizer, where each takes twenty times as long.
inline std::uint32_t n_seeds(std::uint32_t usual) {
  if (const char* asked = std::getenv("CASTOR_N_SEEDS"))
    return static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10));
  return kSanitizer ? std::max(usual / 8, 1u) : usual;
}

}  // namespace castor::test
