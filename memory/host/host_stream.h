// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/stream.h>
#include <castor/memory/worker_thread.h>

namespace castor {

/// A stream that is one worker thread with a queue.
///
/// The destructor runs all queued work to its end, because other threads wait for its events.
class HostStream final : public Stream {
 public:
  Event copy(void* target, const void* source, std::uint64_t n_bytes) override;
  Result<void> wait(const Event& event) override;
  Event record() override;
  std::unique_ptr<StreamTime> time() override;
  Result<void> synchronize() override;

 private:
  Event run(WorkerThread::Task task);

  Result<void> failure_;  // only the worker touches it until its events are reached
  WorkerThread worker_{"castor-stream"};
};

}  // namespace castor
