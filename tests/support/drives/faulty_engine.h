// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/io_engine.h>

namespace castor::test {

/// The fault of one request.
struct Fault {
  enum class Kind { none, fail, shorten, corrupt, lose, hold };
  Kind kind = Kind::none;
  int error_number = 0;  ///< fail: the errno

  static Fault fail(int error_number) { return {Kind::fail, error_number}; }
  /// Moves one sector less than was asked for, and reports the request as complete.
  static Fault shorten() { return {Kind::shorten, 0}; }
  /// Flips one bit of a read or of a write. Does nothing to a sync.
  static Fault corrupt() { return {Kind::corrupt, 0}; }
  /// Reports the request as done and does not run it: a later read gives the earlier bytes. For reads: no byte arrives.
  static Fault lose() { return {Kind::lose, 0}; }
  /// The request waits until release(), or until it is cancelled where Script::set_cancels says so.
  static Fault hold() { return {Kind::hold, 0}; }
};

/// An engine that passes requests on to another, except those with a fault. Requests are counted from 1, those of a
/// chain too.
///
/// Threads: as every engine; faults are set before the requests they are for.
class FaultyEngine final : public IoEngine {
  class Wrapper;

 public:
  /// The test's side, while the store owns the engine. Owners: the engine and the test.
  class Script {
   public:
    void set(std::uint64_t nth, Fault fault) {
      const std::lock_guard lock(mutex_);
      faults_[nth] = fault;
    }
    /// Ends all faults.
    void clear() {
      const std::lock_guard lock(mutex_);
      faults_.clear();
    }
    std::uint64_t n_requests() const {
      const std::lock_guard lock(mutex_);
      return n_requests_;
    }
    /// Blocks until so many requests were started.
    void wait_for(std::uint64_t n_requests) const {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [&] { return n_requests_ >= n_requests; });
    }
    /// Whether any request met its fault.
    bool reached() const {
      const std::lock_guard lock(mutex_);
      return n_reached_ > 0;
    }
    /// Whether a request is held.
    bool holds() const {
      const std::lock_guard lock(mutex_);
      return !held_.empty();
    }
    /// Releases the held requests, in their order or in reverse, and holds no more.
    void release(bool reversed = false) {
      const std::lock_guard in_use(inner_in_use_);
      std::vector<std::pair<IoRequest, IoSink*>> held;
      {
        const std::lock_guard lock(mutex_);
        held.swap(held_);
        released_ = true;
      }
      if (reversed) held = {held.rbegin(), held.rend()};
      for (const auto& [request, sink] : held) inner_->start(request, *sink);
    }

    /// Whether a held request ends where it is cancelled, as one of a kernel that has not given it to the drive.
    void set_cancels(bool cancels) {
      const std::lock_guard lock(mutex_);
      cancels_ = cancels;
    }

   private:
    friend class FaultyEngine;
    /// Takes the request of `wrapper` out of those held; false where it is not held, or cannot be cancelled.
    bool take_cancelled(const IoSink& wrapper) {
      const std::lock_guard lock(mutex_);
      return cancels_ && std::erase_if(held_, [&wrapper](const auto& held) { return held.second == &wrapper; }) > 0;
    }
    /// Gives the next request its `fault`; one that is held is kept here, and may be on its way again when this
    /// returns. Whether it is.
    bool hold_or_fault(const IoRequest& request, IoSink& wrapper, Fault& fault) {
      const std::lock_guard lock(mutex_);
      const auto found = faults_.find(++n_requests_);
      came_.notify_all();
      fault = {};
      if (found == faults_.end()) return false;
      ++n_reached_;
      if (found->second.kind != Fault::Kind::hold) return fault = found->second, false;
      if (released_) return false;
      held_.emplace_back(request, &wrapper);
      return true;
    }

    std::mutex inner_in_use_;  ///< by the test's thread, while the store's may destroy the engine
    mutable std::mutex mutex_;
    mutable std::condition_variable came_;
    std::map<std::uint64_t, Fault> faults_;
    std::uint64_t n_requests_ = 0;
    std::uint64_t n_reached_ = 0;
    std::vector<std::pair<IoRequest, IoSink*>> held_;
    bool released_ = false;
    bool cancels_ = false;
    IoEngine* inner_ = nullptr;
  };

  explicit FaultyEngine(std::unique_ptr<IoEngine> inner, std::shared_ptr<Script> script = std::make_shared<Script>())
      : script_(std::move(script)), inner_(std::move(inner)) {
    script_->inner_ = inner_.get();
  }
  ~FaultyEngine() override { script_->release(); }

  std::string_view name() const override { return "faulty"; }
  std::string fallback_reason() const override { return inner_->fallback_reason(); }
  std::size_t depth() const override { return inner_->depth(); }
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  void cancel(const IoSink& sink) override {
    const std::lock_guard lock(mutex_);
    const auto found = wrappers_.find(&sink);
    if (found == wrappers_.end()) return;
    Wrapper& wrapper = *found->second;
    script_->take_cancelled(wrapper) ? inner_->start(wrapper.cancelled(), wrapper) : inner_->cancel(wrapper);
  }

  void start(const IoRequest& request, IoSink& sink) override {
    Wrapper& wrapper = keep_wrapper(sink);
    if (const auto first = wrapper.admit(request)) inner_->start(*first, wrapper);
  }

 private:
  /// The sink between the inner engine and the caller's, which applies the fault of the request under way.
  class Wrapper final : public IoSink {
   public:
    Wrapper(IoSink& target, Script& script) : target_(target), script_(script) {}

    /// The request for the inner engine in place of `request`; nothing where it is held.
    std::optional<IoRequest> admit(const IoRequest& request) {
      request_ = request;
      if (script_.hold_or_fault(request, *this, fault_)) return std::nullopt;
      return disguised();
    }

    /// The request for the inner engine in place of a held one that is cancelled.
    IoRequest cancelled() {
      fault_ = Fault::fail(ECANCELED);
      return disguised();
    }

    void on_start(const IoRequest&) noexcept override {
      target_.on_start(request_);
      if (!is_corrupt_write()) return;
      std::memcpy(copy_.data(), request_.bytes.data, request_.bytes.n_bytes);
      copy_[copy_.size() / 2] ^= std::byte{1};
    }

    std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
      if (fault_.kind == Fault::Kind::corrupt && request_.op == IoOp::read && outcome.ok())
        request_.bytes.data[request_.bytes.n_bytes / 2] ^= std::byte{1};
      if (fault_.kind == Fault::Kind::lose) target_.on_start(request_);
      const auto next = target_.on_complete(is_unseen() && outcome.ok() ? ended_unseen() : outcome);
      return next ? admit(*next) : std::nullopt;
    }

   private:
    /// The inner engine gets a request of no bytes in place of one that it must not see.
    bool is_unseen() const { return fault_.kind == Fault::Kind::fail || fault_.kind == Fault::Kind::lose; }
    bool is_corrupt_write() const { return fault_.kind == Fault::Kind::corrupt && request_.op == IoOp::write; }
    IoOutcome ended_unseen() const {
      return fault_.kind == Fault::Kind::lose ? IoOutcome{request_.bytes.n_bytes, 0}
                                              : IoOutcome{0, fault_.error_number};
    }
    IoRequest disguised() {
      IoRequest request = request_;
      if (is_unseen()) return {IoOp::read, request.fd, request.path, 0, {}, kNoDeadline};
      if (fault_.kind == Fault::Kind::shorten) request.bytes = request.bytes.part(0, request.bytes.n_bytes - 512);
      if (!is_corrupt_write()) return request;
      copy_store_.resize(request.bytes.n_bytes + kAlign);
      const auto at = reinterpret_cast<std::uintptr_t>(copy_store_.data());
      copy_ = {copy_store_.data() + (kAlign - at % kAlign) % kAlign, request.bytes.n_bytes};
      request.bytes = {copy_.data(), copy_.size()};
      return request;
    }

    static constexpr std::size_t kAlign = 4096;
    IoSink& target_;
    Script& script_;
    IoRequest request_;
    Fault fault_;
    std::vector<std::byte> copy_store_;
    std::span<std::byte> copy_;
  };

  Wrapper& keep_wrapper(IoSink& sink) {
    const std::lock_guard lock(mutex_);
    auto& wrapper = wrappers_[&sink];
    if (wrapper) retired_.push_back(std::move(wrapper));  // its request has ended; its last call may not have returned
    wrapper = std::make_unique<Wrapper>(sink, *script_);
    return *wrapper;
  }

  std::mutex mutex_;
  std::map<const IoSink*, std::unique_ptr<Wrapper>> wrappers_;
  std::vector<std::unique_ptr<Wrapper>> retired_;
  std::shared_ptr<Script> script_;
  std::unique_ptr<IoEngine> inner_;  // last: it is destroyed before the things that it calls
};

}  // namespace castor::test
