// SPDX-License-Identifier: Apache-2.0
#include "host_stream.h"

#include <cstring>
#include <utility>

#include <castor/memory/clock.h>

#include "host_time.h"

namespace castor {

/// After a failure all later tasks are left out and end with it: the bytes they would read may never have arrived.
Event HostStream::run(WorkerThread::Task task) {
  return worker_.run([this, task = std::move(task)] {
    if (failure_.ok()) failure_ = task();
    return failure_;
  });
}

Event HostStream::copy(void* target, const void* source, std::uint64_t n_bytes) {
  return run([=]() -> Result<void> {
    std::memcpy(target, source, n_bytes);
    return {};
  });
}

Result<void> HostStream::wait(const Event& event) {
  if (!event.ready() || !event.wait().ok()) (void)run([event] { return event.wait(); });
  return {};
}

Event HostStream::record() {
  return run([]() -> Result<void> { return {}; });
}

std::unique_ptr<StreamTime> HostStream::time() {
  const auto ns = std::make_shared<std::uint64_t>(0);
  Event reached = worker_.run([ns]() -> Result<void> {
    *ns = steady_now_ns();
    return {};
  });
  return std::make_unique<HostTime>(ns, std::move(reached));
}

Result<void> HostStream::synchronize() {
  (void)record().wait();
  // The queue is empty and the worker idle, so failure_ is ours until the next task.
  return std::exchange(failure_, {});
}

}  // namespace castor
