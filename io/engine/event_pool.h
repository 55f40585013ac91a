// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <castor/memory/event.h>

namespace castor {

/// Makes events from memory that is used again: once the largest number of them has been alive, none allocates. The
/// events may outlive the pool.
///
/// Threads: any.
class EventPool {
 public:
  std::shared_ptr<HostEventState> make() {
    return std::allocate_shared<HostEventState>(Allocator<HostEventState>(free_));
  }

 private:
  /// Memory for one event each, kept until the last event and the pool are gone.
  class FreeList {
   public:
    FreeList() = default;
    FreeList(const FreeList&) = delete;
    FreeList& operator=(const FreeList&) = delete;
    ~FreeList() {
      for (void* block : blocks_) ::operator delete(block);
    }

    void* take(std::size_t n_bytes) {
      const std::lock_guard lock(mutex_);
      if (blocks_.empty()) return ::operator new(n_bytes);
      void* block = blocks_.back();
      blocks_.pop_back();
      return block;
    }
    void put(void* block) {
      const std::lock_guard lock(mutex_);
      blocks_.push_back(block);
    }

   private:
    std::mutex mutex_;
    std::vector<void*> blocks_;  // all of one size: that of an event with its counts
  };

  template <typename T>
  struct Allocator {
    using value_type = T;
    explicit Allocator(std::shared_ptr<FreeList> list) : free(std::move(list)) {}
    template <typename U>
    Allocator(const Allocator<U>& other) : free(other.free) {}
    T* allocate(std::size_t n) { return static_cast<T*>(free->take(n * sizeof(T))); }
    void deallocate(T* block, std::size_t) { free->put(block); }
    template <typename U>
    bool operator==(const Allocator<U>& other) const {
      return free == other.free;
    }
    std::shared_ptr<FreeList> free;  // owners: the pool and every living event
  };

  std::shared_ptr<FreeList> free_ = std::make_shared<FreeList>();
};

}  // namespace castor
