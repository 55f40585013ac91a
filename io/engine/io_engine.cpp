// SPDX-License-Identifier: Apache-2.0
#include <castor/io/io_engine.h>

#include <utility>

#include "backends.h"

namespace castor {
namespace {

constexpr std::size_t kMaxDepth = 4096;
constexpr unsigned kMaxThreads = 256;

/// Turns the outcome of a request into an event. It keeps itself alive until on_complete.
class EventSink final : public IoSink {
 public:
  explicit EventSink(const IoRequest& request) : request_(request) {}

  static Event start(IoEngine& engine, const IoRequest& request) {
    auto sink = std::make_shared<EventSink>(request);
    auto state = std::shared_ptr<HostEventState>(sink, &sink->state_);
    EventSink& target = *sink;
    target.self_ = std::move(sink);
    engine.start(request, target);
    return Event(std::move(state));
  }

  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    const auto self = std::move(self_);
    state_.complete(outcome.ok() ? Result<void>() : Result<void>(io_error(request_, outcome)));
    return std::nullopt;
  }

 private:
  const IoRequest request_;
  HostEventState state_;
  std::shared_ptr<EventSink> self_;  // owners: itself until on_complete, and the events
};

Result<void> check(const IoEngineOptions& options) {
  if (options.depth < 1 || options.depth > kMaxDepth)
    return Error{ErrorKind::usage, "an I/O engine takes a depth of 1 to " + std::to_string(kMaxDepth) + ", not " +
                                       std::to_string(options.depth)};
  if (options.n_threads < 1 || options.n_threads > kMaxThreads)
    return Error{ErrorKind::usage, "an I/O engine takes 1 to " + std::to_string(kMaxThreads) + " threads, not " +
                                       std::to_string(options.n_threads)};
  return {};
}

}  // namespace

Event IoEngine::submit(const IoRequest& request) { return EventSink::start(*this, request); }

Result<EngineChoice> parse_engine_choice(std::string_view text) {
  if (text == "best") return EngineChoice::best;
  if (text == "uring") return EngineChoice::uring;
  if (text == "threads") return EngineChoice::threads;
  if (text == "null") return EngineChoice::null;
  return Error{ErrorKind::usage,
               "'" + std::string(text) + "' is no I/O engine; there are best, uring, threads and null"};
}

Result<std::unique_ptr<IoEngine>> make_io_engine(const IoEngineOptions& options) {
  CASTOR_TRY(check(options));
  if (options.choice == EngineChoice::null) return make_null_engine(options);
  if (options.choice == EngineChoice::threads) return make_threads_engine(options, {});
  auto uring = make_uring_engine(options);
  if (uring.ok() || options.choice == EngineChoice::uring) return uring;
  return make_threads_engine(options, uring.error().message + "; a pool of threads moves the bytes instead");
}

Result<std::unique_ptr<IoEngine>> make_io_engine(EngineChoice choice) {
  IoEngineOptions options;
  options.choice = choice;
  return make_io_engine(options);
}

}  // namespace castor
