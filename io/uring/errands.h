// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace castor {

/// Functions that one thread runs for others, such as registrations, which a ring takes from its issuer alone.
class Errands {
 public:
  /// Adds `errand`, calls `wake`, and blocks until `run_all` has run the errand.
  void add_and_wait(const std::function<void()>& errand, const std::function<void()>& wake);
  /// Runs the waiting errands in their order. Threads: the one.
  void run_all();

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace castor
