// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <castor/io/io_request.h>

namespace castor {

/// One call to the kernel.
struct TransferPart {
  IoOp op = IoOp::read;
  int fd = -1;
  std::byte* data = nullptr;
  std::uint64_t n_bytes = 0;
  std::uint64_t offset_bytes = 0;
};

/// One request in an engine, as a state machine without system calls: `next` gives the next call to the kernel,
/// `advance` takes its answer. Splitting, resuming, trying again and giving up are here, once for all engines.
///
/// Threads: that of the engine which runs it; `stage` and `recall_told` under the mutex of its queue.
class Transfer {
 public:
  /// No call asks for more than this; the kernel itself stops at 2 147 479 552 bytes.
  static constexpr std::uint64_t kMaxPartBytes = std::uint64_t{1} << 30;
  /// The most EAGAIN answers in a row before the request fails; at a pause of a millisecond each about two seconds.
  static constexpr int kMaxWaits = 2000;

  enum class Step : std::uint8_t {
    again,        ///< ask for next() at once
    again_later,  ///< ask for next() after a pause
    done,         ///< outcome() is final
  };

  Transfer() = default;
  /// Begins anew with another request.
  void reset(const IoRequest& request, IoSink& sink);

  const IoRequest& request() const { return request_; }
  IoSink& sink() const { return *sink_; }
  /// Nothing to ask for: a read or write of 0 bytes.
  bool empty() const { return request_.op != IoOp::sync && request_.bytes.n_bytes == 0; }
  TransferPart next() const;
  /// Takes the kernel's answer to next(): bytes moved, or a negative errno. Past its deadline a request asks
  /// for no more, also before it is recalled.
  Step advance(std::int64_t answer);
  /// Ends the request with `error_number` unless the outstanding answer completes it. From any thread.
  void recall(int error_number) { recalled_as_ = error_number; }
  int recalled_as() const { return recalled_as_; }
  /// Requires: advance returned done, or recalled, or empty().
  IoOutcome outcome() const;

  /// Its place in its queue.
  enum class Stage : std::uint8_t { free, waiting, taken };
  Stage stage = Stage::free;
  /// Whether its engine has been told of the recall.
  bool recall_told = false;

 private:
  Step fail(int error_number);
  Step wait_or_fail();
  Step go_on(Step step);
  bool complete() const;

  IoRequest request_;
  IoSink* sink_ = nullptr;
  std::uint64_t done_bytes_ = 0;
  int n_waits_ = 0;
  int error_number_ = 0;
  std::atomic<int> recalled_as_ = 0;
  bool synced_ = false;
};

}  // namespace castor
