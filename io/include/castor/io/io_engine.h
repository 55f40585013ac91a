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
/// What every engine promises:
/// - A request moves all its bytes or ends in an error. Short transfers are resumed where they stopped, EINTR and
///   EAGAIN are tried again (EAGAIN with a pause, for about two seconds), and what is larger than 1 GiB goes in parts
///   (one system call moves at most 2 147 479 552 bytes).
/// - Requests may run in any order and at the same time: whoever needs an order waits.
/// - A full queue holds the caller back until there is room; it is never an error.
/// - A request that waits when its deadline passes, or when it is cancelled, ends at once. One that the kernel has is
///   called back; it ends when the kernel has let go of its bytes, and successfully where they had moved by then. What
///   a drive already works on cannot be called back.
///
/// Threads: any function from any thread except the engine's own (see IoSink).
class IoEngine {
 public:
  /// Blocks until every request has ended: none is dropped.
  virtual ~IoEngine() = default;

  /// `io_uring`, `threads` or `null`.
  virtual std::string_view name() const = 0;
  /// One sentence that says why this is not the engine that was wanted most; empty where it is.
  virtual std::string fallback_reason() const { return {}; }
  /// How many requests it takes before callers are held back.
  virtual std::size_t depth() const = 0;
  /// How it works here, for people: `SINGLE_ISSUER, DEFER_TASKRUN`.
  virtual std::string details() const { return {}; }

  /// Starts `request` and tells `sink`, which must live until it has been told. Blocks while the queue is full.
  /// Allocates nothing.
  virtual void start(const IoRequest& request, IoSink& sink) = 0;
  /// Asks that the request of `sink` end soon, with ECANCELED or as it would have; a chain of requests ends with it
  /// only if the sink returns no other. Nothing happens where `sink` has no request.
  virtual void cancel(const IoSink& sink) = 0;

  /// Says that `fd` will be used often, which saves looking it up for each request. Only a hint: where it cannot be
  /// kept nothing changes. Requires: unregister_file before the descriptor is closed.
  virtual void register_file(int fd) { (void)fd; }
  virtual void unregister_file(int fd) { (void)fd; }
  /// Says that requests will often move these bytes, so that the kernel keeps their pages at hand; returns how many
  /// bytes from the beginning it took (0 = none). The memlock limit bounds them. Only a hint, as above.
  virtual std::uint64_t register_buffer(BufferView bytes) { return (void)bytes, 0; }
  virtual void unregister_buffer(BufferView bytes) { (void)bytes; }

  /// Starts `request`; the event is reached when it has ended, and carries its error.
  Event submit(const IoRequest& request);
};

enum class EngineChoice : std::uint8_t {
  best,     ///< io_uring where it can be set up, else threads
  uring,    ///< io_uring or an error
  threads,  ///< blocking calls on a few threads
  null,     ///< moves nothing and ends every request at once: what the way to the drive costs without the drive
};

struct IoEngineOptions {
  EngineChoice choice = EngineChoice::best;
  std::size_t depth = 64;  ///< requests taken before callers are held back, 1 to 4096
  /// io_uring: so many of them are with the kernel at a time, 0 = all. The others are made ready meanwhile (on_start) or
  /// reported (on_complete), so that the drive does not wait while a sink computes.
  std::size_t kernel_depth = 0;
  unsigned n_threads = 4;  ///< of the threads engine: calls that block at the same time, 1 to 256
  /// io_uring: a thread of the kernel looks for requests (IORING_SETUP_SQPOLL), which saves calls and costs a core.
  bool sqpoll = false;
  /// io_uring: completions are asked for, not waited for (IORING_SETUP_IOPOLL): O_DIRECT and a driver with poll queues.
  bool iopoll = false;
};

/// Reads `best`, `uring`, `threads` or `null`. Errors: usage.
Result<EngineChoice> parse_engine_choice(std::string_view text);

/// Makes an engine. `best` finds out by trying: a ring is set up and a no-op goes through it.
/// Errors: io, with `uring` where the kernel, a sandbox or the memlock limit refuses it; usage, an option out of range.
Result<std::unique_ptr<IoEngine>> make_io_engine(const IoEngineOptions& options);
Result<std::unique_ptr<IoEngine>> make_io_engine(EngineChoice choice);

/// What io_uring offers here, in one line for people, found by setting up a ring and sending a no-op through it.
/// Errors: io, with the reason it does not work.
Result<std::string> probe_io_uring();

}  // namespace castor
