// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <castor/memory/event.h>

namespace castor {

/// One thread that runs tasks in the order they were queued.
///
/// The destructor runs all queued tasks to their end, because other threads wait for their events.
/// Threads: run may be called from any thread.
class WorkerThread {
 public:
  using Task = std::function<Result<void>()>;

  /// `name` is the thread's (quiet_thread.h). Throws std::system_error where the system gives no thread.
  explicit WorkerThread(const char* name = "castor-worker");
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  /// Queues `task`, which must not throw; returns the event of its end, with its outcome. The task is destroyed before
  /// that event is reached.
  Event run(Task task);

 private:
  struct Entry {
    Task task;
    std::shared_ptr<HostEventState> done;  // owners: the queue and the caller's Event
  };

  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;  // guarded by mutex_
  bool stopping_ = false;    // guarded by mutex_
  std::thread thread_;       // last: it uses all of the above
};

}  // namespace castor
