// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <memory>

namespace castor {

/// Counts the bytes that tensors on the meta device would take, as long as it lives: LibTorch allocates nothing for
/// them, but asks the allocator of that device, which this stands in for. Tensors that were made before do not count.
///
/// Every allocation counts as whole blocks of 512 B, as in LibTorch's CUDA allocator.
/// Threads: one at a time in the process; tensors may end on any thread.
class MetaMemory final : public c10::Allocator {
 public:
  MetaMemory();
  ~MetaMemory() override;
  MetaMemory(const MetaMemory&) = delete;
  MetaMemory& operator=(const MetaMemory&) = delete;

  /// The most bytes since the last call, or since this began.
  std::uint64_t take_peak();
  /// What is allocated and freed between these counts for no peak: an operator's kernel for this device may be a program of
  /// others, and hold tensors that a kernel of another device has no need of.
  void begin_operator();
  void end_operator();

  c10::DataPtr allocate(std::size_t n_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {}

 private:
  struct Count;
  struct Block;

  c10::Allocator* const before_;
  const std::shared_ptr<Count> count_;  // owners: this, and the blocks, which may outlive it
};

}  // namespace castor
