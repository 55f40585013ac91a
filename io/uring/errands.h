// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace castor {

/// What other threads ask one thread to do for them, such as registrations, which a ring takes from its issuer alone.
class Errands {
 public:
  /// Blocks until `run_all` has run `errand`; `wake` is called once it is to be found.
  void add_and_wait(const std::function<void()>& errand, const std::function<void()>& wake);
  /// Runs those there are, in the order they came. From the one thread.
  void run_all();

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace castor
