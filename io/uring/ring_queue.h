// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <castor/memory/result.h>

#include "engine/transfer_queue.h"
#include "uring/ring.h"
#include "uring/ring_slots.h"
#include "uring/wake_up.h"

namespace castor {

/// The entries of a ring that go to the kernel, and their completions.
///
/// Invariant: in the ring are at most one entry per transfer, one call-back for each, and one read of the wake-up
/// counter. The caller adds no transfer again before its completion was reaped; so a completion queue of four times as
/// many entries as transfers cannot overflow.
/// Threads: the ring's, which calls `open`; `details` from any.
class RingQueue {
 public:
  /// Whether completions are asked for (IOPOLL) or waited for:
  ///
  ///     state    the ring polls   transfers   next
  ///     off      no               yes         -
  ///     on       yes              yes         refused, when the drive answers EOPNOTSUPP
  ///     refused  yes              no          given_up, by a new ring, when the kernel has no transfer
  ///     given_up no               yes         -
  enum class Polling : std::uint8_t { off, on, refused, given_up };

  /// `wake_up` is borrowed.
  RingQueue(const RingOptions& options, WakeUp& wake_up);

  /// Errors: io, why the ring cannot be had.
  Result<void> open();
  void close() { ring_.reset(); }

  /// A ring that polls takes neither a sync, nor a call-back, nor the read of the wake-up counter.
  bool polls() const { return polling_ == Polling::on || polling_ == Polling::refused; }
  bool takes_transfers() const { return polling_ != Polling::refused; }
  /// The drive does not poll. Requires: polls().
  void refuse_polling() { polling_ = Polling::refused; }
  /// Opens a ring that sleeps in place of the one that polls. Requires: the kernel has no transfer.
  void give_up_polling();

  /// Adds the entry that asks for `part` of `transfer`.
  void add(Transfer* transfer, const TransferPart& part);
  /// Adds the entry that calls `transfer` back; nothing where the ring polls.
  void call_back(Transfer* transfer);
  void arm_wake_up();

  /// Hands the entries to the kernel, without waiting. Entries that it cannot take now go with the next call.
  void submit();
  /// The same in one call that sleeps until there is a completion, or for `longest`; it does not sleep where the ring
  /// polls and the kernel has no transfer. An error is not fatal: the kernel may still move bytes, so the loop
  /// continues.
  void submit_and_wait(std::optional<std::chrono::nanoseconds> longest, bool has_transfers);
  /// Calls `on_answer(transfer, answer)` for each transfer that the kernel has completed.
  template <typename OnAnswer>
  void reap(const OnAnswer& on_answer) {
    int answer = 0;
    while (void* const data = next_completion(answer))
      if (data != &wake_up_ && data != this) on_answer(static_cast<Transfer*>(data), answer);
  }

  /// Registered files and memory (RingSlots).
  void add_file(int fd) { slots_.add_file(*ring_, fd); }
  void remove_file(int fd) { slots_.remove_file(*ring_, fd); }
  std::uint64_t add_buffer(BufferView bytes) { return slots_.add_buffer(*ring_, bytes); }
  void remove_buffer(BufferView bytes) { slots_.remove_buffer(*ring_, bytes); }

  /// The modes of the ring, for people (IoEngine::details).
  std::string details() const;

 private:
  void fill_in(io_uring_sqe* entry, const TransferPart& part) const;
  void* next_completion(int& answer);

  RingOptions options_;
  WakeUp& wake_up_;
  std::optional<Ring> ring_;
  RingSlots slots_;
  Polling polling_;
  mutable std::mutex details_mutex_;
  std::string details_;
};

}  // namespace castor
