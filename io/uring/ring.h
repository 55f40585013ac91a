// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <string>

#include <castor/memory/result.h>

namespace castor {

/// Owns one io_uring.
class Ring {
 public:
  /// Sets up a ring for `n_entries` requests, with the fastest modes the kernel accepts, and sends a no-op through it.
  /// The calling thread is the only one that may use it. Errors: io, in one sentence.
  static Result<Ring> open(unsigned n_entries);

  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  io_uring* get() { return &ring_; }
  /// Completions are run only when this thread asks for them (kernel 6.1 and later), which saves an interruption each.
  bool deferred() const { return (ring_.flags & IORING_SETUP_DEFER_TASKRUN) != 0; }

 private:
  Ring() = default;
  int set_up(unsigned n_entries);
  int send_no_op();

  io_uring ring_{};
  bool open_ = false;
};

}  // namespace castor
