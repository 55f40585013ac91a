// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>

#include <castor/memory/buffer.h>
#include <castor/memory/device.h>

namespace castor::bench {

/// Copies between a device's host memory and its own, in both directions at once, as long as the caller calls `feed`.
class BusTraffic {
 public:
  /// Copies of `buffer_bytes` each, up to `n_ahead` queued in each direction. Errors: does_not_fit; failed.
  static Result<std::unique_ptr<BusTraffic>> make(Device& device, std::uint64_t buffer_bytes, std::size_t n_ahead);
  ~BusTraffic() { (void)stop(); }
  BusTraffic(const BusTraffic&) = delete;
  BusTraffic& operator=(const BusTraffic&) = delete;

  /// Queues copies until `n_ahead` wait in each direction. Call it again before they have all run.
  void feed();
  /// Bytes of the copies that have ended so far, both directions together.
  std::uint64_t moved_bytes();
  /// Waits for the queued copies. Errors: those of the copies.
  Result<void> stop();

 private:
  struct Direction {
    std::unique_ptr<Stream> stream;
    Buffer source, target;
    std::deque<Event> ends;  ///< of the copies that were running at the last count
  };

  BusTraffic(std::uint64_t buffer_bytes, std::size_t n_ahead) : buffer_bytes_(buffer_bytes), n_ahead_(n_ahead) {}
  void count_ended();

  const std::uint64_t buffer_bytes_;
  const std::size_t n_ahead_;
  std::array<Direction, 2> directions_;  ///< up, down
  std::uint64_t moved_bytes_ = 0;
};

}  // namespace castor::bench
