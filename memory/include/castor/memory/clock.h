// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace castor {

/// Nanoseconds since some fixed moment; never runs backwards. Code that measures time takes one as an argument, so that
/// tests can set the time.
using Clock = std::function<std::uint64_t()>;

/// The machine's monotonic clock (about 25 ns a call).
std::uint64_t steady_now_ns();
/// The same in seconds.
double steady_now_s();

}  // namespace castor
