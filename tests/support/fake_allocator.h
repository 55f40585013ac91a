// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <castor/plugins/model_host.h>

#include "nth_call.h"

namespace castor::test {

/// An allocator of a GPU's memory with the counters of torch's, over ordinary host memory.
///
/// It keeps what it has taken from the device, as a caching allocator does, and fills new memory with a pattern, so
/// that a read of bytes that nothing wrote shows. Threads: one at a time.
class FakeAllocator final : public DeviceCalls {
 public:
  explicit FakeAllocator(std::uint64_t total_bytes) : total_bytes_(total_bytes) {}
  FakeAllocator(const FakeAllocator&) = delete;

  /// `n_bytes` at a multiple of 512 B. Errors: does_not_fit, where the device has no room, or the allocation is the one
  /// that shall fail.
  Result<void*> allocate(std::uint64_t n_bytes) override {
    const bool refused = failing_ != nullptr && failing_->is_this();
    if (refused || n_bytes > total_bytes_ - memory_.allocated)
      return Error{ErrorKind::does_not_fit, "the fake GPU has no " + std::to_string(n_bytes) + " B left"};
    void* const data = ::operator new(n_bytes, kAlign);
    std::memset(data, kPattern, n_bytes);
    ++n_live_;
    take(n_bytes);
    return data;
  }
  void deallocate(void* data, std::uint64_t n_bytes) override {
    ::operator delete(data, kAlign);
    --n_live_;
    memory_.allocated -= n_bytes;
  }

  /// Activations and workspaces: bytes that the model holds beside the plugin's allocations.
  void hold(std::uint64_t n_bytes) { take(n_bytes); }
  void let_go(std::uint64_t n_bytes) { memory_.allocated -= n_bytes; }

  Result<castor_device_memory> memory() override {
    castor_device_memory found = memory_;
    found.struct_size = sizeof found, found.total = total_bytes_;
    return found;
  }
  void reset_peak() override { memory_.allocated_peak = memory_.allocated, memory_.reserved_peak = memory_.reserved; }

  void limit(std::uint64_t n_bytes) override {
    limit_bytes_ = n_bytes;
    memory_.reserved = std::max(memory_.allocated, std::min(memory_.reserved, n_bytes));
  }
  std::uint64_t limit_bytes() const { return limit_bytes_; }

  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t reserved_bytes() const { return memory_.reserved; }
  std::uint64_t allocated_bytes() const { return memory_.allocated; }
  /// Allocations that were not given back.
  int n_live() const { return n_live_; }
  /// Refuses the allocation that `nth` names, which is borrowed.
  void fail_allocation(NthCall& nth) { failing_ = &nth; }

 private:
  static constexpr std::align_val_t kAlign{512};
  static constexpr int kPattern = 0xCB;

  void take(std::uint64_t n_bytes) {
    memory_.allocated += n_bytes;
    memory_.allocated_peak = std::max(memory_.allocated_peak, memory_.allocated);
    memory_.reserved = std::max(memory_.reserved, memory_.allocated);
    memory_.reserved_peak = std::max(memory_.reserved_peak, memory_.reserved);
  }

  const std::uint64_t total_bytes_;
  castor_device_memory memory_ = {};
  std::uint64_t limit_bytes_ = ~std::uint64_t{0};
  int n_live_ = 0;
  NthCall* failing_ = nullptr;
};

}  // namespace castor::test
