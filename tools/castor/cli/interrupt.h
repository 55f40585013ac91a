// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::cli {

/// Turns Ctrl-C and SIGTERM into a request that the work checks at its next unit; a second signal ends the process at
/// once with exit code 130.
///
/// One at a time: the destructor restores the earlier handlers of both signals. The files that hold a run's states are
/// unnamed, so even an immediate exit leaves none behind.
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
