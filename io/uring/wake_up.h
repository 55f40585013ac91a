// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <castor/io/unique_fd.h>
#include <castor/memory/result.h>

struct io_uring_sqe;

namespace castor {

/// Wakes a ring's thread in the kernel, by an eventfd that the ring reads, or the thread itself where the ring takes no
/// such read.
///
/// Threads: wake from any; the rest from the ring's.
class WakeUp {
 public:
  /// Errors: io.
  static Result<WakeUp> make();

  void wake();

  /// Makes `entry` a read that ends at the next `wake`, or at once where a `wake` has not been read yet.
  void arm(io_uring_sqe* entry);
  bool armed() const { return armed_; }
  /// Call when the read has ended.
  void on_completion() { armed_ = false; }
  /// Blocks until the next `wake`, as such a read does. Requires: not armed.
  void sleep();

 private:
  explicit WakeUp(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::uint64_t count_ = 0;  ///< the kernel writes the eventfd's value here
  bool armed_ = false;
};

}  // namespace castor
