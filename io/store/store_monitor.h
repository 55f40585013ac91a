// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

namespace castor {

/// The lock of a store, which its parts share, and the condition that its waiting threads sleep on: drains, removes,
/// commits and the destructor.
struct StoreMonitor {
  std::mutex mutex;
  std::condition_variable changed;
};

}  // namespace castor
