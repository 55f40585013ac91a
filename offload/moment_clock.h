// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <castor/memory/stream.h>
#include <castor/memory/timeline.h>

namespace castor {

/// How long the moments of an iteration compute, beside waiting for their chunks. A moment that needs the device is timed
/// by the compute stream, which the thread runs ahead of; any other by the thread.
class MomentClock {
 public:
  /// Both are borrowed.
  MomentClock(Stream& compute, const Timeline& timeline) : compute_(compute), timeline_(timeline) {}

  /// A moment begins to wait for what it needs.
  void add(bool on_device) { moments_.emplace_back().on_device = on_device; }
  /// What the last moment needs is there, or on its way ahead of the compute stream's next work.
  void start();
  /// The last moment ends, unless it has before.
  void stop();
  void clear() { moments_.clear(); }

  /// Seconds by moment. Waits for the compute stream. Errors: failed.
  Result<std::vector<double>> seconds() const;

 private:
  struct Timed {
    bool on_device = false;
    std::unique_ptr<StreamTime> begin, end;
    std::uint64_t begin_ns = 0, end_ns = 0;
  };

  Stream& compute_;
  const Timeline& timeline_;
  std::vector<Timed> moments_;
};

}  // namespace castor
