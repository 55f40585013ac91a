// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/io/io_request.h>

namespace castor {

/// What the kernel is asked for in one call.
struct TransferPart {
  IoOp op = IoOp::read;
  int fd = -1;
  std::byte* data = nullptr;
  std::uint64_t n_bytes = 0;
  std::uint64_t offset_bytes = 0;
};

/// One request on its way through an engine, as a state machine without system calls: `next` says what to ask the
/// kernel for, `advance` takes the answer. Splitting, resuming and trying again live here, once for all engines.
class Transfer {
 public:
  /// No call asks for more than this; the kernel itself stops at 2 147 479 552 bytes.
  static constexpr std::uint64_t kMaxPartBytes = std::uint64_t{1} << 30;
  /// How often in a row EAGAIN is answered by waiting; at a millisecond each about two seconds.
  static constexpr int kMaxWaits = 2000;

  enum class Step : std::uint8_t {
    again,        ///< ask for next() at once
    again_later,  ///< ask for next() after a pause
    done,         ///< outcome() stands
  };

  Transfer() = default;
  Transfer(const IoRequest& request, IoSink& sink) : request_(request), sink_(&sink) {}

  IoSink& sink() const { return *sink_; }
  /// Nothing to ask for: a read or write of 0 bytes.
  bool empty() const { return request_.op != IoOp::sync && request_.bytes.n_bytes == 0; }
  TransferPart next() const;
  /// `answer` is what the kernel returned for next(): bytes moved, or a negative errno.
  Step advance(std::int64_t answer);
  /// Requires: advance returned done, or empty().
  Result<std::uint64_t> outcome() const;

 private:
  Step fail(int error_number);
  Step wait_or_fail();

  IoRequest request_;
  IoSink* sink_ = nullptr;
  std::uint64_t done_bytes_ = 0;
  int n_waits_ = 0;
  int error_number_ = 0;
  bool stalled_ = false;
};

}  // namespace castor
