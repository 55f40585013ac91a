// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

namespace castor {

/// What one model lets torch's allocator take of a device. There is one allocator per device in a process: it keeps
/// within the largest of the models' limits, and has none while a model sets none.
///
/// Threads: any.
class AllocatorLimit {
 public:
  /// None yet.
  explicit AllocatorLimit(c10::Device device);
  /// Leaves the allocator to the other models.
  ~AllocatorLimit();
  AllocatorLimit(const AllocatorLimit&) = delete;
  AllocatorLimit& operator=(const AllocatorLimit&) = delete;

  /// `n_bytes` from now on. Where the allocator caches more, it gives back its cache.
  void set(std::uint64_t n_bytes);

 private:
  void change(std::optional<std::uint64_t> n_bytes);

  const c10::Device device_;
};

}  // namespace castor
