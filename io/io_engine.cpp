// SPDX-License-Identifier: Apache-2.0
#include <castor/io/io_engine.h>

#include <utility>

#include "backends.h"

namespace castor {
namespace {

/// Turns the outcome of a request into an event. It keeps itself alive until it has been told.
class EventSink final : public IoSink {
 public:
  static Event start(IoEngine& engine, const IoRequest& request) {
    auto sink = std::make_shared<EventSink>();
    auto state = std::shared_ptr<HostEventState>(sink, &sink->state_);
    EventSink& target = *sink;
    target.self_ = std::move(sink);
    engine.start(request, target);
    return Event(std::move(state));
  }

  void on_complete(Result<std::uint64_t> outcome) noexcept override {
    const auto self = std::move(self_);
    state_.complete(outcome.ok() ? Result<void>() : Result<void>(outcome.error()));
  }

 private:
  HostEventState state_;
  std::shared_ptr<EventSink> self_;  // owners: the engine until it is told, and whoever holds the event
};

}  // namespace

Event IoEngine::submit(const IoRequest& request) { return EventSink::start(*this, request); }

Result<EngineChoice> parse_engine_choice(std::string_view text) {
  if (text == "best") return EngineChoice::best;
  if (text == "uring") return EngineChoice::uring;
  if (text == "threads") return EngineChoice::threads;
  return Error{ErrorKind::usage, "'" + std::string(text) + "' is no I/O engine; there are best, uring and threads"};
}

Result<std::unique_ptr<IoEngine>> make_io_engine(EngineChoice choice) {
  if (choice == EngineChoice::threads) return make_threads_engine({});
  auto uring = make_uring_engine();
  if (uring.ok() || choice == EngineChoice::uring) return uring;
  return make_threads_engine(uring.error().message + "; a pool of threads moves the bytes instead");
}

}  // namespace castor
