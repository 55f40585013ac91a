// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "sanitizers.h"

namespace castor::test {

/// The call to fail after a run in which the n-th has failed: the next one, or under a sanitizer, where each run takes
/// twenty times as long, from the eighth on one that is a quarter later, and at least four.
inline std::uint64_t next_nth(std::uint64_t nth) {
  return kSanitizer && nth >= 8 ? nth + std::max<std::uint64_t>(4, nth / 4) : nth + 1;
}

/// Picks one of the calls of a kind, to fail it or to act at it. Calls are counted from 1.
///
/// Threads: any.
class NthCall {
 public:
  /// 0: no call.
  explicit NthCall(std::uint64_t nth = 0) : nth_(nth) {}

  /// Counts a call; true where it is the one.
  bool is_this() { return ++n_calls_ == nth_; }
  /// Counts a call; true for the one and for all after it.
  bool is_this_or_later() { return nth_ != 0 && ++n_calls_ >= nth_; }
  bool reached() const { return nth_ != 0 && n_calls_ >= nth_; }
  std::uint64_t n_calls() const { return n_calls_; }

 private:
  const std::uint64_t nth_;
  std::atomic<std::uint64_t> n_calls_ = 0;
};

}  // namespace castor::test
