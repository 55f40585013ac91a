// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <castor/io/io_request.h>
#include <castor/memory/event.h>
#include <castor/memory/result.h>

namespace castor {

/// Moves bytes between files and memory while its callers do something else.
///
/// Every engine guarantees:
/// - A request moves all its bytes or ends in an error. Short transfers are resumed where they stopped, EINTR and
///   EAGAIN are tried again (EAGAIN with a pause, for about two seconds), and a request of more than 1 GiB is split
///   (one system call moves at most 2 147 479 552 bytes).
/// - Requests may run in any order and at the same time: a caller that needs an order waits between them.
/// - A full queue blocks the caller until there is room; it is never an error.
/// - A request that waits when its deadline passes, or when it is cancelled, ends at once. The engine asks the kernel
///   to cancel one that it has; such a request ends when the kernel no longer uses its bytes, and successfully where
///   they had all moved by then. The kernel cannot cancel a transfer that the drive works on.
///
/// Threads: any function from any thread except the engine's own (see IoSink).
class IoEngine {
 public:
  /// Blocks until every request has ended; none is dropped.
  virtual ~IoEngine() = default;

  /// `io_uring`, `threads` or `null`.
  virtual std::string_view name() const = 0;
  /// One sentence that says why this is not the preferred engine; empty where it is.
  virtual std::string fallback_reason() const { return {}; }
  /// Requests in the queue or running before `start` blocks.
  virtual std::size_t depth() const = 0;
  /// The modes in use, for people: `SINGLE_ISSUER, DEFER_TASKRUN`.
  virtual std::string details() const { return {}; }

  /// Starts `request` and reports its end to `sink`, which must live until then. Blocks while the queue is full.
  /// Allocates nothing.
  virtual void start(const IoRequest& request, IoSink& sink) = 0;
  /// Cancels the request of `sink`: it ends soon, with ECANCELED or as it would have. A chain of requests continues
  /// where the sink returns another one. Nothing happens where `sink` has no request.
  virtual void cancel(const IoSink& sink) = 0;

  /// Registers `fd`, which saves the kernel a look-up per request. Only a hint: where the kernel refuses, nothing
  /// changes. Requires: unregister_file before the descriptor is closed.
  virtual void register_file(int fd) { (void)fd; }
  virtual void unregister_file(int fd) { (void)fd; }
  /// Registers memory that many requests will move, so that the kernel pins its pages once; returns how many bytes from
  /// the beginning it took (0 = none). The memlock limit bounds them. Only a hint, as above.
  virtual std::uint64_t register_buffer(BufferView bytes) { return (void)bytes, 0; }
  virtual void unregister_buffer(BufferView bytes) { (void)bytes; }

  /// Starts `request`; the event completes when it has ended, and has its error.
  Event submit(const IoRequest& request);
};

enum class EngineChoice : std::uint8_t {
  best,     ///< io_uring where it can be set up, else threads
  uring,    ///< io_uring or an error
  threads,  ///< blocking calls on a few threads
  null,     ///< moves nothing and ends every request at once: shows the cost of the software alone
};

struct IoEngineOptions {
  EngineChoice choice = EngineChoice::best;
  std::size_t depth = 64;  ///< requests taken before `start` blocks, 1 to 4096
  /// io_uring: the most requests that the kernel has at a time, 0 = all. Sinks of the others compute meanwhile
  /// (on_start, on_complete), so that the drive does not wait for them.
  std::size_t kernel_depth = 0;
  unsigned n_threads = 4;  ///< of the threads engine: calls that block at the same time, 1 to 256
  /// io_uring: a kernel thread polls for requests (IORING_SETUP_SQPOLL), which saves system calls and costs a core.
  bool sqpoll = false;
  /// io_uring: the engine polls for completions (IORING_SETUP_IOPOLL); needs O_DIRECT and a driver with poll queues.
  bool iopoll = false;
};

/// Reads `best`, `uring`, `threads` or `null`. Errors: usage.
Result<EngineChoice> parse_engine_choice(std::string_view text);

/// Makes an engine. `best` sets up a ring and sends a no-op through it to learn whether io_uring works.
/// Errors: io, with `uring` where the kernel, a sandbox or the memlock limit refuses it; usage, an option out of range.
Result<std::unique_ptr<IoEngine>> make_io_engine(const IoEngineOptions& options);
Result<std::unique_ptr<IoEngine>> make_io_engine(EngineChoice choice);

/// Describes io_uring on this machine in one line for people, after setting up a ring and sending a no-op through it.
/// Errors: io, with the reason it does not work.
Result<std::string> probe_io_uring();

}  // namespace castor
