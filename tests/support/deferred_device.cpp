// SPDX-License-Identifier: Apache-2.0
#include "deferred_device.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include <castor/memory/clock.h>

namespace castor::test {
namespace {

/// Polls of an event that find it not reached; then it is, as if the copy had ended meanwhile.
constexpr int kPollsUntilReady = 3;

constexpr int kPoison = 0xCB;

class DeferredEvent final : public EventState {
 public:
  DeferredEvent(std::shared_ptr<DeferredQueue> queue, std::uint64_t number, std::shared_ptr<Result<void>> outcome)
      : queue_(std::move(queue)), number_(number), outcome_(std::move(outcome)) {}

  bool ready() const override {
    if (!queue_->done(number_) && n_polls_++ >= kPollsUntilReady) queue_->run_until(number_);
    return queue_->done(number_);
  }
  Result<void> wait() const override {
    queue_->run_until(number_);
    return *outcome_;
  }

 private:
  const std::shared_ptr<DeferredQueue> queue_;
  const std::uint64_t number_;
  const std::shared_ptr<Result<void>> outcome_;  // owners: this, and the work that ends with it
  mutable std::atomic<int> n_polls_ = 0;
};

/// A job of a DeferredTeam.
class DeferredJob final : public EventState {
 public:
  DeferredJob(HostTeam::Job job, std::shared_ptr<std::uint32_t> n_run)
      : job_(std::move(job)), n_run_(std::move(n_run)) {}

  bool ready() const override {
    const std::lock_guard lock(mutex_);
    if (!done_ && n_polls_++ >= kPollsUntilReady) run();
    return done_;
  }
  Result<void> wait() const override {
    const std::lock_guard lock(mutex_);
    if (!done_) run();
    return outcome_;
  }
  bool done() const { return done_; }

 private:
  void run() const {
    for (const Event& event : job_.after)
      if (auto ended = event.wait(); outcome_.ok()) outcome_ = std::move(ended);
    for (std::uint32_t part = job_.n_parts; part-- > 0 && outcome_.ok();) outcome_ = job_.run(part);
    job_ = {};
    done_ = true;
    ++*n_run_;
  }

  mutable std::recursive_mutex mutex_;
  mutable HostTeam::Job job_;
  mutable Result<void> outcome_;
  mutable std::atomic<bool> done_ = false;
  mutable int n_polls_ = 0;
  const std::shared_ptr<std::uint32_t> n_run_;
};

class NoTime final : public StreamTime {
 public:
  Result<double> seconds_since(const StreamTime&) const override { return 0.0; }
};

class DeferredTime final : public StreamTime {
 public:
  DeferredTime(std::shared_ptr<const std::uint64_t> ns, Event reached)
      : ns_(std::move(ns)), reached_(std::move(reached)) {}

  Result<double> seconds_since(const StreamTime& earlier) const override {
    return (static_cast<double>(ns()) - static_cast<double>(dynamic_cast<const DeferredTime&>(earlier).ns())) * 1e-9;
  }

 private:
  std::uint64_t ns() const {
    (void)reached_.wait();
    return *ns_;
  }

  const std::shared_ptr<const std::uint64_t> ns_;  // owners: this, and the work that writes it
  const Event reached_;
};

class DeferredDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string description() const override { return "deferred"; }
  Result<std::unique_ptr<Stream>> make_stream() override {
    return std::unique_ptr<Stream>(std::make_unique<DeferredStream>());
  }
  std::unique_ptr<Stream> wrap_compute_stream(void* handle) override { return host_->wrap_compute_stream(handle); }
  MemoryResource& device_memory() override { return host_->device_memory(); }
  MemoryResource& host_memory() override { return host_->host_memory(); }
  std::uint64_t total_memory_bytes() const override { return 0; }
  std::uint64_t free_memory_bytes() const override { return 0; }

 private:
  const std::unique_ptr<Device> host_ = make_cpu_device();
};

}  // namespace

std::uint64_t DeferredQueue::add(Work work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  if (work_.size() == 1) poison_front();
  return n_done_ + work_.size();
}

bool DeferredQueue::done(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  return n_done_ >= number;
}

void DeferredQueue::run_until(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  while (n_done_ < number) run_front();
}

void DeferredQueue::run_all() {
  const std::lock_guard lock(mutex_);
  while (!work_.empty()) run_front();
}

Result<void> DeferredQueue::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, {});
}

/// Copies that a failed stream leaves out keep their bytes.
void DeferredQueue::poison_front() {
  const Work& next = work_.front();
  if (next.target != nullptr && failure_.ok()) std::memset(next.target, kPoison, next.n_bytes);
}

void DeferredQueue::run_front() {
  const Work& next = work_.front();
  if (failure_.ok())
    failure_ = next.run();
  else if (next.also_after_failure)
    (void)next.run();
  *next.outcome = failure_;
  work_.pop_front();
  ++n_done_;
  if (!work_.empty()) poison_front();
}

Event DeferredStream::add(DeferredQueue::Work work) {
  const auto outcome = std::make_shared<Result<void>>();
  work.outcome = outcome;
  const std::uint64_t number = queue_->add(std::move(work));
  return Event(std::make_shared<DeferredEvent>(queue_, number, outcome));
}

Event DeferredStream::copy(void* target, const void* source, std::uint64_t n_bytes) {
  return add({target, n_bytes, [=]() -> Result<void> {
                std::memcpy(target, source, n_bytes);
                return {};
              }});
}

Result<void> DeferredStream::wait(const Event& event) {
  (void)add({nullptr, 0, [event] { return event.wait(); }});
  return {};
}

Event DeferredStream::record() {
  return add({nullptr, 0, []() -> Result<void> { return {}; }});
}

std::unique_ptr<StreamTime> DeferredStream::time() {
  const auto ns = std::make_shared<std::uint64_t>(0);
  Event reached = add({nullptr, 0,
                       [ns]() -> Result<void> {
                         *ns = steady_now_ns();
                         return {};
                       },
                       true});
  return std::make_unique<DeferredTime>(ns, std::move(reached));
}

Result<void> DeferredStream::synchronize() {
  queue_->run_all();
  return queue_->take_failure();
}

Event DeferredTeam::add(Job job) {
  if (failure_) job.run = [error = *std::exchange(failure_, {})](std::uint32_t) -> Result<void> { return error; };
  std::erase_if(added_, [](const Event& event) { return dynamic_cast<const DeferredJob&>(*event.state()).done(); });
  added_.push_back(Event(std::make_shared<DeferredJob>(std::move(job), n_run_)));
  return added_.back();
}

std::unique_ptr<StreamTime> DeferredTeam::time() { return std::make_unique<NoTime>(); }

void DeferredTeam::run_all() {
  for (const Event& event : added_) (void)event.wait();
  added_.clear();
}

std::unique_ptr<Device> make_deferred_device() { return std::make_unique<DeferredDevice>(); }

}  // namespace castor::test
