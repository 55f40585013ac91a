// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <castor/io/io_engine.h>

namespace castor::test {

/// Passes requests on to another engine; those that are started while the gate is closed wait until it opens. While it
/// is open it allocates nothing.
///
/// Threads: any.
class GatedEngine final : public IoEngine {
 public:
  explicit GatedEngine(std::unique_ptr<IoEngine> inner) : inner_(std::move(inner)) {}

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void open() {
    std::vector<std::pair<IoRequest, IoSink*>> held;
    {
      const std::lock_guard lock(mutex_);
      closed_ = false;
      held.swap(held_);
    }
    for (const auto& [request, sink] : held) inner_->start(request, *sink);
  }

  std::string_view name() const override { return inner_->name(); }
  std::size_t depth() const override { return inner_->depth(); }
  void start(const IoRequest& request, IoSink& sink) override {
    if (!hold(request, sink)) inner_->start(request, sink);
  }
  void cancel(const IoSink& sink) override { inner_->cancel(sink); }
  void register_file(int fd) override { inner_->register_file(fd); }
  void unregister_file(int fd) override { inner_->unregister_file(fd); }

 private:
  bool hold(const IoRequest& request, IoSink& sink) {
    const std::lock_guard lock(mutex_);
    if (closed_) held_.emplace_back(request, &sink);
    return closed_;
  }

  std::mutex mutex_;
  std::vector<std::pair<IoRequest, IoSink*>> held_;
  bool closed_ = false;
  std::unique_ptr<IoEngine> inner_;
};

}  // namespace castor::test
