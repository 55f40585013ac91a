// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace castor {

/// How long the last steps took that went alike.
class RecentSteps {
 public:
  /// A step has ended.
  void note(std::uint64_t now_ns) {
    before_last_s_ = last_s_;
    last_s_ = ended_ns_ == 0 ? kUnknown : static_cast<double>(now_ns - ended_ns_) * 1e-9;
    n_ += ended_ns_ == 0 ? 0 : 1;
    ended_ns_ = now_ns;
  }
  /// The next steps go otherwise.
  void forget() { last_s_ = before_last_s_ = kUnknown, n_ = 0; }

  /// Of the last two, since one may have waited for something that has nothing to do with how it went; infinite where there
  /// was none.
  double shorter_s() const { return std::min(last_s_, before_last_s_); }
  /// Two have followed the first, which has work of those before or leaves some over.
  bool settled() const { return n_ > 2; }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  std::uint64_t ended_ns_ = 0;
  double last_s_ = kUnknown, before_last_s_ = kUnknown;
  int n_ = 0;  ///< since the last that were forgotten
};

}  // namespace castor
