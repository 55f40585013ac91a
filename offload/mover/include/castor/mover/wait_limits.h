// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

namespace castor {

/// When a wait for data ends with an error although the data have not arrived.
struct WaitLimits {
  std::function<bool()> interrupted;     ///< called about every half millisecond of a wait; empty: never
  std::chrono::nanoseconds longest{0};   ///< of one wait; 0: no limit
};

}  // namespace castor
