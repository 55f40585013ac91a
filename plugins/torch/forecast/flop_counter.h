// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace castor {

/// Adds up the floating-point operations of this thread's operators as long as it lives: matrix products, attention and
/// convolutions, forward and backward, two for each product that is added. Other operators count as none. One at a time
/// in a thread.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  /// The operations since the last call, or since this began.
  double take();
  /// Operators do not count while it is paused.
  void pause(bool paused);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace castor
