// SPDX-License-Identifier: Apache-2.0
#include "uring/uring_engine.h"

#include <sys/utsname.h>

#include <future>
#include <utility>

#include <castor/memory/quiet_thread.h>

#include "engine/backends.h"

namespace castor {

Result<std::unique_ptr<IoEngine>> UringEngine::make(const IoEngineOptions& options, AnswerFilter filter) {
  CASTOR_ASSIGN(WakeUp wake_up, WakeUp::make());
  std::unique_ptr<UringEngine> engine(new UringEngine(options, std::move(wake_up), std::move(filter)));
  auto set_up = std::make_shared<std::promise<Result<void>>>();  // owners: this call and the thread, which sets the
                                                                 // outcome of the set-up
  engine->thread_ = start_quiet_thread("castor-uring", [ours = engine.get(), set_up] { ours->loop_.run(*set_up); });
  CASTOR_TRY(set_up->get_future().get());
  return std::unique_ptr<IoEngine>(std::move(engine));
}

UringEngine::UringEngine(const IoEngineOptions& options, WakeUp wake_up, AnswerFilter filter)
    : queue_(options.depth),
      wake_up_(std::move(wake_up)),
      loop_(options, {queue_, wake_up_, errands_}, std::move(filter)) {}

UringEngine::~UringEngine() {
  queue_.stop();
  wake_up_.wake();
  if (thread_.joinable()) thread_.join();  // not where it could not be started
}

void UringEngine::start(const IoRequest& request, IoSink& sink) {
  if (queue_.push(request, sink)) wake_up_.wake();
}

void UringEngine::cancel(const IoSink& sink) {
  if (queue_.cancel(sink)) wake_up_.wake();
}

void UringEngine::register_file(int fd) {
  on_ring_thread([this, fd] { loop_.ring().add_file(fd); });
}

void UringEngine::unregister_file(int fd) {
  on_ring_thread([this, fd] { loop_.ring().remove_file(fd); });
}

std::uint64_t UringEngine::register_buffer(BufferView bytes) {
  std::uint64_t taken_bytes = 0;
  on_ring_thread([&] { taken_bytes = loop_.ring().add_buffer(bytes); });
  return taken_bytes;
}

void UringEngine::unregister_buffer(BufferView bytes) {
  on_ring_thread([&] { loop_.ring().remove_buffer(bytes); });
}

/// A ring of one issuer takes registrations from its thread alone.
void UringEngine::on_ring_thread(const std::function<void()>& errand) {
  errands_.add_and_wait(errand, [this] { wake_up_.wake(); });
}

Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options) {
  return UringEngine::make(options);
}

Result<std::string> probe_io_uring() {
  CASTOR_ASSIGN(Ring ring, Ring::open(RingOptions{}));
  utsname system{};
  ::uname(&system);
  return "Linux " + std::string(system.release) + ", " + ring.modes() + ", a ring of " +
         std::to_string(RingOptions{}.n_entries) + " entries; a no-op completed";
}

}  // namespace castor
