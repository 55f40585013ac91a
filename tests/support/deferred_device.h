// SPDX-License-Identifier: Apache-2.0
// A device on the host whose streams delay every copy until a thread waits for it, and fill its target with poison
// meanwhile: code that forgets to wait reads poison, on any machine and every time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <castor/memory/device.h>
#include <castor/memory/host_team.h>

namespace castor::test {

/// The work of one stream, in order. It runs when a thread waits for it, on that thread.
class DeferredQueue {
 public:
  struct Work {
    void* target = nullptr;  ///< poisoned once the work ahead of it is done; null where nothing is copied
    std::uint64_t n_bytes = 0;
    std::function<Result<void>()> run;
    bool also_after_failure = false;
    std::shared_ptr<Result<void>> outcome = {};  ///< the stream's outcome after it
  };

  /// Returns the work's number.
  std::uint64_t add(Work work);
  bool done(std::uint64_t number) const;
  void run_until(std::uint64_t number);
  void run_all();
  /// The first failure since the last call.
  Result<void> take_failure();

 private:
  void poison_front();
  void run_front();

  mutable std::recursive_mutex mutex_;  // work may wait for work of another stream that waits for this one's
  std::deque<Work> work_;
  std::uint64_t n_done_ = 0;
  Result<void> failure_;
};

/// Threads: one queues; any waits.
class DeferredStream final : public Stream {
 public:
  ~DeferredStream() override { queue_->run_all(); }

  Event copy(void* target, const void* source, std::uint64_t n_bytes) override;
  Result<void> wait(const Event& event) override;
  Event record() override;
  std::unique_ptr<StreamTime> time() override;
  Result<void> synchronize() override;

 private:
  Event add(DeferredQueue::Work work);

  const std::shared_ptr<DeferredQueue> queue_ = std::make_shared<DeferredQueue>();  // owners: this and its events
};

/// A team without threads: a job runs when a thread waits for it, on that thread, and its parts in backward order.
/// Neither the order of adding nor urgency makes a job run sooner. It takes no time.
class DeferredTeam final : public HostTeam {
 public:
  ~DeferredTeam() override { run_all(); }
  Event add(Job job) override;
  void limit_threads(unsigned) override {}
  std::unique_ptr<StreamTime> time() override;

  void run_all();
  /// Makes the next job that is added end with `error` instead.
  void fail_next(Error error) { failure_ = std::move(error); }
  std::uint32_t n_run() const { return *n_run_; }

 private:
  std::vector<Event> added_;
  std::optional<Error> failure_;
  const std::shared_ptr<std::uint32_t> n_run_ = std::make_shared<std::uint32_t>(0);  // owners: this and its jobs
};

/// The host as a device, with deferred streams beside the compute stream, which is the thread itself.
std::unique_ptr<Device> make_deferred_device();

}  // namespace castor::test
