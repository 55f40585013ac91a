// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include <castor/mover/stateful_tensor_mgr.h>

namespace castor {

/// Gradients of the model that are being read, in the order in which they arrived.
///
/// Threads: one at a time.
class GradientsInFlight {
 public:
  struct Gradient {
    Event read;                  ///< after which its bytes have been read
    std::function<void()> free;  ///< called once, after that; empty: the caller waits for `read`
    std::uint64_t n_bytes = 0;
  };

  /// Borrowed.
  explicit GradientsInFlight(StatefulTensorMgr& mover) : mover_(mover) {}
  /// Waits for all of them and frees them.
  ~GradientsInFlight();
  GradientsInFlight(const GradientsInFlight&) = delete;
  GradientsInFlight& operator=(const GradientsInFlight&) = delete;

  /// Returns the gradient, whose `read` may be set until the next call.
  Gradient& add(Gradient gradient);
  /// Waits until the one that was added last has been read, and forgets it. Requires: it has no `free`.
  void wait_for_last();
  /// Frees those that have been read by now.
  void free_read();
  /// Waits until gradients of `n_bytes` together have been read, the oldest first, or all, and frees them. Errors:
  /// those of StatefulTensorMgr::join_host; the gradients are freed later then.
  [[nodiscard]] Result<void> free_bytes(std::uint64_t n_bytes);

  /// Of those that are not known to have been read.
  std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  void free_oldest();

  StatefulTensorMgr& mover_;
  std::deque<Gradient> gradients_;
  std::uint64_t n_bytes_ = 0;
};

}  // namespace castor
