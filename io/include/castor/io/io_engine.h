// SPDX-License-Identifier: Apache-2.0
#pragma once

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
/// EAGAIN are tried
///   again, and what is larger than 1 GiB goes in parts (one system call moves at most 2 147 479 552 bytes).
/// - Requests may run in any order and at the same time: whoever needs an order waits.
/// - A full queue holds the caller back until there is room; it is never an error.
/// - Errors are of kind io and name the path, the offset, the length, how far it came, the system's reason, and what to
/// do.
///
/// Threads: start and submit may be called from any thread except the engine's own (see IoSink).
class IoEngine {
 public:
  /// Blocks until every request has ended: none is dropped.
  virtual ~IoEngine() = default;

  /// `io_uring` or `threads`.
  virtual std::string_view name() const = 0;
  /// One sentence that says why this is not the engine that was wanted most; empty where it is.
  virtual std::string fallback_reason() const { return {}; }

  /// Starts `request` and tells `sink` when it has ended. Blocks while the queue is full. Allocates nothing.
  /// `sink` must live until it has been told.
  virtual void start(const IoRequest& request, IoSink& sink) = 0;

  /// Starts `request`; the event is reached when it has ended, and carries its error.
  Event submit(const IoRequest& request);
};

enum class EngineChoice : std::uint8_t {
  best,     ///< io_uring where it can be set up, else threads
  uring,    ///< io_uring or an error
  threads,  ///< blocking calls on a few threads
};

/// Reads `best`, `uring` or `threads`. Errors: usage.
Result<EngineChoice> parse_engine_choice(std::string_view text);

/// Makes an engine. `best` finds out by trying: a ring is set up and a no-op goes through it.
/// Errors: io, with `uring` where the kernel, a sandbox or the memlock limit refuses it.
Result<std::unique_ptr<IoEngine>> make_io_engine(EngineChoice choice);

/// What io_uring offers here, in one line for people, found by setting up a ring and sending a no-op through it.
/// Errors: io, with the reason it does not work.
Result<std::string> probe_io_uring();

}  // namespace castor
