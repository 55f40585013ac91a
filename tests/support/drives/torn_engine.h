// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <castor/io/io_engine.h>

#include "support/drives/torn_drive.h"

namespace castor::test {

/// Passes requests on to another engine and has a TornDrive log them: a write from the call to the kernel on, a sync
/// from the call to the engine on. A write that fails may have reached the drive, and no sync covers it.
///
/// A FaultyEngine that reports transfers wrongly must be above this one, not below: else the log would be wrong too.
///
/// Threads: as every engine.
class TornEngine final : public IoEngine {
 public:
  /// `drive` is borrowed.
  TornEngine(std::unique_ptr<IoEngine> inner, TornDrive& drive) : drive_(drive), inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string fallback_reason() const override { return inner_->fallback_reason(); }
  std::size_t depth() const override { return inner_->depth(); }
  std::string details() const override { return inner_->details(); }
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }
  std::uint64_t register_buffer(BufferView bytes) override { return inner_->register_buffer(bytes); }
  void unregister_buffer(BufferView bytes) override { inner_->unregister_buffer(bytes); }

  void start(const IoRequest& request, IoSink& sink) override {
    Wrapper& wrapper = keep_wrapper(sink);
    wrapper.admit(request);
    inner_->start(request, wrapper);
  }
  void cancel(const IoSink& sink) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = wrappers_.find(&sink); found != wrappers_.end()) inner_->cancel(*found->second);
  }

 private:
  /// The sink between the inner engine and the caller's.
  class Wrapper final : public IoSink {
   public:
    Wrapper(IoSink& target, TornDrive& drive) : target_(target), drive_(drive) {}

    void admit(const IoRequest& request) {
      request_ = request;
      begun_.reset();
      if (const auto inode = look_up_inode(); inode && request.op == IoOp::sync) begun_ = drive_.begin_sync(*inode);
    }
    void on_start(const IoRequest& request) noexcept override {
      target_.on_start(request);  // it may still fill the bytes
      if (const auto inode = look_up_inode(); inode && request.op == IoOp::write)
        begun_ = drive_.begin_write(*inode, request.offset_bytes, {request.bytes.data, request.bytes.n_bytes});
    }
    std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
      if (outcome.ok() && begun_) drive_.end(*begun_);
      auto next = target_.on_complete(outcome);
      if (next) admit(*next);
      return next;
    }

   private:
    /// Also logs a length that no write has made: room set aside. Does nothing for a descriptor of no file.
    std::optional<ino_t> look_up_inode() const {
      struct stat facts {};
      if (request_.op == IoOp::read || ::fstat(request_.fd, &facts) != 0) return std::nullopt;
      drive_.note_grown(facts.st_ino, static_cast<std::uint64_t>(facts.st_size));
      return facts.st_ino;
    }

    IoSink& target_;
    TornDrive& drive_;
    IoRequest request_;
    std::optional<std::size_t> begun_;
  };

  Wrapper& keep_wrapper(IoSink& sink) {
    const std::lock_guard lock(mutex_);
    auto& wrapper = wrappers_[&sink];
    if (wrapper) retired_.push_back(std::move(wrapper));  // its request has ended; its last call may not have returned
    wrapper = std::make_unique<Wrapper>(sink, drive_);
    return *wrapper;
  }

  TornDrive& drive_;
  std::mutex mutex_;
  std::map<const IoSink*, std::unique_ptr<Wrapper>> wrappers_;
  std::vector<std::unique_ptr<Wrapper>> retired_;
  std::unique_ptr<IoEngine> inner_;  // last: it is destroyed before the things that it calls
};

}  // namespace castor::test
