// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor {

/// Shares of bytes are rounded: half a byte is no difference.
inline constexpr double kRoundingBytes = 0.5;

/// Takes a share of the bytes of a row of things, spread evenly: it takes one where the bytes taken so far would
/// otherwise fall behind the share of the bytes seen so far.
class EvenShare {
 public:
  explicit EvenShare(double share) : share_(share) {}
  /// True where the next one is taken; never where it does not fit.
  bool take(double n_bytes, bool fits = true) {
    so_far_bytes_ += n_bytes;
    const bool taken = fits && taken_bytes_ + n_bytes <= share_ * so_far_bytes_ + kRoundingBytes;
    taken_bytes_ += taken ? n_bytes : 0;
    return taken;
  }
  double taken_bytes() const { return taken_bytes_; }

 private:
  const double share_;
  double so_far_bytes_ = 0, taken_bytes_ = 0;
};

}  // namespace castor
