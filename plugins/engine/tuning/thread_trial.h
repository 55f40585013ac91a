// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "recent_steps.h"

namespace castor {

/// Searches how many of the update threads should work during backward: first all of them, then fewer as long as that
/// makes steps shorter.
///
/// During a backward pass updates, gradients that are copied down and weights that are copied up share the host's
/// memory bandwidth; during the next forward pass only copies of weights do. Updates of weights that the forward pass
/// needs late can wait for it, and with fewer threads more of them do: the most urgent are made first.
class ThreadTrial {
 public:
  /// A search among 1 to `all_threads` threads; at least 1.
  explicit ThreadTrial(unsigned all_threads)
      : all_threads_(all_threads), n_threads_(all_threads), best_threads_(all_threads), over_(all_threads == 1) {}

  unsigned all_threads() const { return all_threads_; }
  /// The number of threads for the next backward pass.
  unsigned n_threads() const { return n_threads_; }
  bool over() const { return over_; }
  unsigned best_threads() const { return best_threads_; }
  double best_s() const { return best_s_; }
  /// The duration of a step with all threads.
  double with_all_s() const { return with_all_s_; }

  /// Records the end of a step that used n_threads().
  void note_step(std::uint64_t now_ns) {
    if (over_) return;
    steps_.note(now_ns);
    if (steps_.settled()) judge();
  }

 private:
  void judge() {
    const double step_s = steps_.median_s();
    if (best_s_ == kUnknown) with_all_s_ = step_s;
    over_ = step_s > (1 - RecentSteps::kLeastDifference) * best_s_;
    if (!over_) best_s_ = step_s, best_threads_ = n_threads_;
    const unsigned fewer = n_threads_ * 3 / 4;
    over_ = over_ || fewer == 0;
    n_threads_ = over_ ? best_threads_ : fewer;
    steps_.forget();
  }

  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  const unsigned all_threads_;
  unsigned n_threads_, best_threads_;
  bool over_;
  double best_s_ = kUnknown, with_all_s_ = kUnknown;
  RecentSteps steps_;
};

}  // namespace castor
