// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace castor {

/// How long the last steps took that went alike.
class RecentSteps {
 public:
  RecentSteps() { forget(); }

  /// A step has ended.
  void note(std::uint64_t now_ns) {
    if (ended_ns_ != 0) last_s_[n_++ % last_s_.size()] = static_cast<double>(now_ns - ended_ns_) * 1e-9;
    ended_ns_ = now_ns;
  }
  /// The next steps go otherwise.
  void forget() { last_s_.fill(std::numeric_limits<double>::infinity()), n_ = 0; }

  /// Of the last three, since one may have waited for something that has nothing to do with how it went; infinite where there
  /// was one or none.
  double median_s() const {
    auto ordered = last_s_;
    std::sort(ordered.begin(), ordered.end());
    return ordered[1];
  }
  /// Three have followed the first, which has work of those before or leaves some over.
  bool settled() const { return n_ > last_s_.size(); }

 private:
  std::uint64_t ended_ns_ = 0;
  std::array<double, 3> last_s_ = {};
  std::size_t n_ = 0;  ///< since the last that were forgotten
};

}  // namespace castor
