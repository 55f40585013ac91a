// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include <castor/chunk/spill_store.h>
#include <castor/memory/memory_resource.h>
#include <castor/memory/stream.h>
#include <castor/plan/links.h>

namespace castor {

/// The training thread's time: it passes where the thread waits, or by pass().
class VirtualClock {
 public:
  double now_s() const { return now_s_; }
  std::uint64_t now_ns() const { return static_cast<std::uint64_t>(now_s_ * 1e9); }
  void wait_until(double at_s) { now_s_ = std::max(now_s_, at_s); }
  void pass(double seconds) { now_s_ += seconds; }

  /// Notes that a wait or a job ends at `at_s`: a waiting thread wakes up then.
  void note_end(double at_s) { ends_s_.push(at_s); }
  /// The next noted end after now; infinity where there is none.
  double next_end_s() {
    while (!ends_s_.empty() && ends_s_.top() <= now_s_) ends_s_.pop();
    return ends_s_.empty() ? std::numeric_limits<double>::infinity() : ends_s_.top();
  }

 private:
  double now_s_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> ends_s_;
};

/// An event at a point of virtual time that is known from the start.
class VirtualPoint final : public EventState {
 public:
  VirtualPoint(VirtualClock& clock, double at_s) : clock_(clock), at_s_(at_s) { clock.note_end(at_s); }
  bool ready() const override { return at_s_ <= clock_.now_s(); }
  Result<void> wait() const override { return clock_.wait_until(at_s_), Result<void>(); }
  /// Waits until any noted end, because nothing can change before it.
  bool wait_for(std::chrono::nanoseconds) const override {
    return clock_.wait_until(std::min(at_s_, clock_.next_end_s())), ready();
  }
  double at_s() const { return at_s_; }

 private:
  VirtualClock& clock_;
  const double at_s_;
};

class VirtualTime final : public StreamTime {
 public:
  explicit VirtualTime(double at_s) : at_s_(at_s) {}
  Result<double> seconds_since(const StreamTime& earlier) const override {
    return at_s_ - dynamic_cast<const VirtualTime&>(earlier).at_s_;
  }

 private:
  const double at_s_;
};

/// A stream whose copies move nothing and take time of a VirtualClock. An event is reached when the thread's time is.
class VirtualStream final : public Stream {
 public:
  /// Copies take `seconds_per_byte`, kernels `seconds_per_touched_byte`. The clock is borrowed.
  VirtualStream(VirtualClock& clock, double seconds_per_byte, double seconds_per_touched_byte = 0)
      : clock_(clock), seconds_per_byte_(seconds_per_byte), seconds_per_touched_byte_(seconds_per_touched_byte) {}

  /// When work begins that is queued now.
  double next_s() const { return std::max(free_s_, clock_.now_s()); }
  /// Queues work that takes `seconds`.
  void run(double seconds) { free_s_ = next_s() + seconds; }

  void touch(std::uint64_t n_bytes) override { run(static_cast<double>(n_bytes) * seconds_per_touched_byte_); }
  Event copy(void* target, const void* source, std::uint64_t n_bytes) override;
  Result<void> wait(const Event& event) override;
  Event record() override;
  std::unique_ptr<StreamTime> time() override;
  Result<void> synchronize() override;

 private:
  VirtualClock& clock_;
  const double seconds_per_byte_, seconds_per_touched_byte_;
  double free_s_ = 0;  ///< when all queued work has run
};

/// A drive without contents: reads follow one another, as do writes, and both slow each other down by `nvme_share` of
/// `costs`.
class VirtualDrive final : public SpillStore {
 public:
  VirtualDrive(VirtualClock& clock, const LinkCosts& costs) : clock_(clock), costs_(costs) {}

  Event write(ChunkId chunk, BufferView bytes, std::span<const std::uint64_t>) override;
  Event read(ChunkId chunk, BufferView bytes) override;
  void forget(ChunkId chunk) override { written_s_.erase(chunk); }
  std::vector<std::uint64_t> block_ends(std::uint64_t) const override { return {}; }
  std::uint64_t checksum(BufferView) const override { return 0; }

 private:
  double take(double& lane_free_s, double from_s, double seconds);

  VirtualClock& clock_;
  const LinkCosts costs_;
  double read_free_s_ = 0, write_free_s_ = 0, drive_free_s_ = 0;
  std::map<ChunkId, double> written_s_;  ///< by chunk: when its write ends
};

}  // namespace castor
