// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <cstdint>
#include <string>

#include <castor/memory/buffer.h>
#include <castor/memory/result.h>

namespace castor {

struct RingOptions {
  unsigned n_entries = 256;
  bool sqpoll = false;
  bool iopoll = false;
};

/// Bytes to move between memory and a file; a slot of -1 = not registered.
struct RingMove {
  bool reads;
  BufferView bytes;
  int fd;
  std::uint64_t offset_bytes;
  int file_slot = -1;
  int buffer_slot = -1;
};

void fill_in(io_uring_sqe* entry, const RingMove& move);

/// Owns one io_uring, its registered files and its registered buffers.
///
/// Threads: the one that opened it.
class Ring {
 public:
  static constexpr unsigned kNSlots = 64;  ///< registered files, and as many registered buffers

  /// Sets up a ring with the fastest modes the kernel accepts, and sends a no-op through it (not where it polls).
  /// Errors: io, in one sentence.
  static Result<Ring> open(const RingOptions& options);

  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  io_uring* get() { return &ring_; }
  /// An entry to fill in; where all are taken, the filled ones go to the kernel first.
  io_uring_sqe* next_entry();
  /// The modes in use: `SINGLE_ISSUER, DEFER_TASKRUN`.
  std::string modes() const;
  bool polls() const { return (ring_.flags & IORING_SETUP_IOPOLL) != 0; }

  /// Slots of registered files and buffers; 0, or an errno where the kernel refuses.
  int set_file(unsigned slot, int fd);
  int set_buffer(unsigned slot, BufferView bytes);

 private:
  Ring() = default;
  int set_up(const RingOptions& options);
  int send_no_op();

  io_uring ring_{};
  bool open_ = false;
  bool has_slots_ = false;
};

}  // namespace castor
