// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace castor::test {

/// A clock that the test sets forward.
///
/// Threads: any.
class ManualClock {
 public:
  std::uint64_t now_ns() const { return now_ns_; }
  void advance(std::uint64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<std::uint64_t> now_ns_ = 1;  // some code takes 0 for "never"
};

}  // namespace castor::test
