// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::cli {

/// Turns Ctrl-C and SIGTERM into a request that the work asks for at its next unit; a second one ends the process at
/// once with exit code 130.
///
/// One at a time: the earlier behaviour of both signals comes back when it goes. Files that a run keeps its states in
/// have no name, so also an end at once leaves none behind.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// True once the user has asked to stop. Threads: any.
  static bool requested();
};

}  // namespace castor::cli
