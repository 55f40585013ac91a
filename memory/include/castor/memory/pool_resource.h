// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include <castor/memory/memory_resource.h>

namespace castor {

/// Keeps freed blocks, hands them out again to requests of exactly the same size, and makes other sizes of them before
/// it takes more from `upstream`.
///
/// Chunks have few sizes, so exact reuse hits often, and no page is faulted in (or pinned) twice. Where it does not,
/// and more than 3 % of the bytes in use lies idle or upstream refuses, idle blocks are exchanged for one of the
/// requested size, and for more of that size as far as their pages go. Upstream decides how it makes the new blocks: on
/// the host it moves pages.
///
/// - Every block is an allocation of its own, so that no room is lost between two of them: a request that fits beside
///   the blocks in use is never refused. (Slabs that blocks are cut from cannot promise that: one small block holds a
///   slab. In the dry runs of `layout_bench` slabs evicted chunks that would have fitted, for 6 to 40 % more NVMe
///   traffic.)
/// - The bytes taken from upstream never exceed the peak of the bytes in use by more than 3 %, but for blocks that
///   set_aside took.
///
/// Cost: a request that an idle block suits is a lookup. An exchange blocks other calls.
class PoolResource final : public MemoryResource {
 public:
  /// `upstream` is borrowed and must outlive the pool.
  explicit PoolResource(MemoryResource& upstream) : upstream_(upstream) {}
  ~PoolResource() override { trim(); }
  PoolResource(const PoolResource&) = delete;
  PoolResource& operator=(const PoolResource&) = delete;

  /// Errors: those of upstream; a budget's figures in them count kept bytes as free.
  Result<void*> allocate(std::uint64_t n_bytes) override;
  void deallocate(void* data, std::uint64_t n_bytes) noexcept override;
  std::uint64_t trim() noexcept override;

  /// Takes a block of `n_bytes` from upstream for later: it is handed out once use_reserve() was called, or when
  /// upstream refuses a request. Other calls go on while upstream allocates. Where upstream refuses, the block is made
  /// of idle ones. Errors: those of upstream.
  [[nodiscard]] Result<void> set_aside(std::uint64_t n_bytes);
  /// Bytes that were set aside and have not been handed out.
  std::uint64_t reserve_bytes() const;
  /// Keeps the blocks that were set aside with the others.
  void use_reserve();
  /// Gives the blocks that were set aside back to upstream, while other calls go on.
  void drop_reserve() noexcept;

  /// The most bytes that were handed out at once.
  std::uint64_t peak_in_use_bytes() const;
  /// Bytes kept for reuse now.
  std::uint64_t kept_bytes() const;

 private:
  Result<void*> serve(std::uint64_t n_bytes);
  void* take_same(std::uint64_t n_bytes);
  Result<void*> make_of_kept(std::uint64_t n_bytes);
  std::vector<MemoryBlock> take_about(std::uint64_t n_bytes);
  void keep(void* data, std::uint64_t n_bytes);
  bool keep_reserve();
  Result<void> set_aside_of_kept(std::uint64_t n_bytes);

  MemoryResource& upstream_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::vector<void*>> kept_;  ///< by size; no list is empty
  std::vector<MemoryBlock> reserve_;                  ///< set aside
  std::uint64_t kept_bytes_ = 0, in_use_bytes_ = 0, peak_in_use_bytes_ = 0;
};

}  // namespace castor
