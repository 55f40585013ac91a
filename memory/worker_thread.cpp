// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/worker_thread.h>

#include <utility>

#include <castor/memory/quiet_thread.h>

namespace castor {

WorkerThread::WorkerThread(const char* name) : thread_(start_quiet_thread(name, [this] { serve(); })) {}

WorkerThread::~WorkerThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Event WorkerThread::run(Task task) {
  auto done = std::make_shared<HostEventState>();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(task), done});
  }
  changed_.notify_one();
  return Event(std::move(done));
}

void WorkerThread::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    auto outcome = entry.task();
    entry.task = nullptr;
    entry.done->complete(std::move(outcome));
    lock.lock();
  }
}

}  // namespace castor
