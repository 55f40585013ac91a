// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/io_engine.h>

#include "io_error.h"

namespace castor::test {

/// What happens to one request.
struct Fault {
  enum class Kind { fail, shorten, corrupt, hold };
  Kind kind = Kind::fail;
  int error_number = 0;  ///< fail: the errno

  static Fault fail(int error_number) { return {Kind::fail, error_number}; }
  /// One sector less is moved than was asked for, and reported as complete.
  static Fault shorten() { return {Kind::shorten, 0}; }
  /// One bit of what a read brought is flipped. A write is left alone.
  static Fault corrupt() { return {Kind::corrupt, 0}; }
  /// The request waits until release().
  static Fault hold() { return {Kind::hold, 0}; }
};

/// An engine that does what another does, except to the requests it was told about. Requests are counted from 1.
///
/// Threads: as every engine; faults are set before the requests they are for.
class FaultyEngine final : public IoEngine {
 public:
  /// What a test looks at while the store owns the engine. Shared: the engine and the test.
  class Script {
   public:
    void set(std::uint64_t nth, Fault fault) {
      const std::lock_guard lock(mutex_);
      faults_[nth] = fault;
    }
    /// No request meets a fault from here on.
    void clear() {
      const std::lock_guard lock(mutex_);
      faults_.clear();
    }
    std::uint64_t n_requests() const {
      const std::lock_guard lock(mutex_);
      return n_requests_;
    }
    /// Whether any request met its fault.
    bool reached() const {
      const std::lock_guard lock(mutex_);
      return n_reached_ > 0;
    }
    /// Lets the held requests go, in the order they came, and stops holding.
    void release() {
      std::vector<std::pair<IoRequest, IoSink*>> held;
      {
        const std::lock_guard lock(mutex_);
        held.swap(held_);
        released_ = true;
      }
      for (const auto& [request, sink] : held) inner_->start(request, *sink);
    }

   private:
    friend class FaultyEngine;
    std::pair<bool, Fault> next() {
      const auto found = faults_.find(++n_requests_);
      if (found == faults_.end()) return {false, {}};
      ++n_reached_;
      return {true, found->second};
    }

    mutable std::mutex mutex_;
    std::map<std::uint64_t, Fault> faults_;
    std::uint64_t n_requests_ = 0;
    std::uint64_t n_reached_ = 0;
    std::vector<std::pair<IoRequest, IoSink*>> held_;
    bool released_ = false;
    IoEngine* inner_ = nullptr;
  };

  explicit FaultyEngine(std::unique_ptr<IoEngine> inner, std::shared_ptr<Script> script = std::make_shared<Script>())
      : inner_(std::move(inner)), script_(std::move(script)) {
    script_->inner_ = inner_.get();
  }
  ~FaultyEngine() override { script_->release(); }

  std::string_view name() const override { return "faulty"; }
  std::string fallback_reason() const override { return inner_->fallback_reason(); }

  void start(const IoRequest& request, IoSink& sink) override {
    std::unique_lock lock(script_->mutex_);
    const auto [hit, fault] = script_->next();
    if (hit && fault.kind == Fault::Kind::hold && !script_->released_) {
      script_->held_.emplace_back(request, &sink);
      return;
    }
    lock.unlock();
    if (!hit || fault.kind == Fault::Kind::hold) return inner_->start(request, sink);
    if (fault.kind == Fault::Kind::fail) return sink.on_complete(request_error(request, 0, fault.error_number));
    if (fault.kind == Fault::Kind::shorten) return inner_->start(shortened(request), sink);
    inner_->start(request, keep_corrupting_sink(request, sink));
  }

 private:
  class CorruptingSink final : public IoSink {
   public:
    CorruptingSink(const IoRequest& request, IoSink& target) : request_(request), target_(target) {}
    void on_complete(Result<std::uint64_t> outcome) noexcept override {
      if (request_.op == IoOp::read) request_.bytes.data[request_.bytes.n_bytes / 2] ^= std::byte{1};
      target_.on_complete(std::move(outcome));
    }

   private:
    IoRequest request_;
    IoSink& target_;
  };

  IoSink& keep_corrupting_sink(const IoRequest& request, IoSink& target) {
    const std::lock_guard lock(script_->mutex_);
    sinks_.push_back(std::make_unique<CorruptingSink>(request, target));
    return *sinks_.back();
  }

  static IoRequest shortened(IoRequest request) {
    request.bytes = request.bytes.part(0, request.bytes.n_bytes - 512);
    return request;
  }

  std::vector<std::unique_ptr<CorruptingSink>> sinks_;
  std::unique_ptr<IoEngine> inner_;
  std::shared_ptr<Script> script_;
};

}  // namespace castor::test
