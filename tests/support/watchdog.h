// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace castor::test {

/// Calls `rescue` where it lives longer than a run takes on the slowest machine.
class Watchdog {
 public:
  explicit Watchdog(std::function<void()> rescue)
      : thread_([this, rescue = std::move(rescue)] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, std::chrono::seconds(15), [this] { return over_; })) return;
          barked_ = true;
          rescue();
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
    EXPECT_FALSE(barked_) << "the run hung";
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false, barked_ = false;
  std::thread thread_;
};

}  // namespace castor::test
