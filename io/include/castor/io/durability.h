// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor {

/// The lifetime of a store's values.
enum class Durability : std::uint8_t {
  scratch,  ///< the files have no names; nothing outlives the store, however the process ends
  commit,   ///< opening finds the values of the last commit again, however the process or machine ended
};

}  // namespace castor
