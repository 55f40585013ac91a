// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/clock.h>

#include <chrono>

namespace castor {

std::uint64_t steady_now_ns() {
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count());
}

double steady_now_s() { return static_cast<double>(steady_now_ns()) * 1e-9; }

}  // namespace castor
