// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <castor/memory/buffer.h>
#include <castor/memory/host_resource.h>

namespace castor::bench {

/// Memory to measure with, in huge pages where the kernel gives them.
///
/// 1 MiB in 4-KiB pages that lie here and there is 256 pieces, more than many drives take in one request (254 on virtio):
/// each is then split, and moves at half the rate or less. Ceilings get memory of the same kind.
class BenchMemory {
 public:
  BenchMemory() = default;
  /// Errors: those of HostResource.
  static Result<BenchMemory> allocate(std::uint64_t n_bytes);

  BufferView view() const { return view_; }

 private:
  std::unique_ptr<HostResource> resource_;
  Buffer buffer_;
  BufferView view_;
};

}  // namespace castor::bench
