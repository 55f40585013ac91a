// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <castor/memory/quiet_thread.h>

namespace castor {

/// One thread that handles items in the order of `push`, which never blocks.
template <typename Item>
class SerialWorker {
 public:
  SerialWorker(const char* name, std::function<void(Item)> handle)
      : handle_(std::move(handle)), thread_(start_quiet_thread(name, [this] { run(); })) {}
  ~SerialWorker() { stop(); }

  void push(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_one();
  }

  /// Blocks until every item is handled and the thread has ended.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !items_.empty() || stopped_; });
      if (items_.empty()) return;
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      handle_(std::move(item));
      lock.lock();
    }
  }

  std::function<void(Item)> handle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool stopped_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace castor
