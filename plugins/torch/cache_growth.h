// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <castor/memory/bytes.h>

namespace castor {

/// Memory that torch's allocator has mapped without a gap in the addresses of one stream.
struct MappedStretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t free_at_begin_bytes = 0;  ///< of the free block that begins it; all of a stretch that is free
  std::uint64_t free_at_end_bytes = 0;
};

/// The cache of torch's allocator in one moment.
struct CacheLayout {
  std::vector<MappedStretch> stretches;   ///< by address
  std::vector<std::uint64_t> free_bytes;  ///< of each free block
};

struct CacheFigures {
  std::int64_t n_retries = 0;  ///< how often the cache was given back for one allocation
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allowed_bytes = 0;  ///< reserved_bytes may not exceed it
};

/// torch's allocator for the current device and stream, whose segments are expandable.
class GrowingCache {
 public:
  virtual ~GrowingCache() = default;
  virtual CacheFigures figures() = 0;
  /// Of the device, whoever uses the rest. Asks the driver.
  virtual std::uint64_t device_free_bytes() = 0;
  virtual CacheLayout layout() = 0;
  /// Null where the allocator refuses. Frees what it allocated when the block ends.
  virtual void* allocate(std::uint64_t n_bytes) = 0;
  virtual void deallocate(void* block) = 0;
  /// Replaces the limit of reserved_bytes, until restore_limit() gives back exactly the one before.
  virtual void allow(std::uint64_t n_bytes) = 0;
  virtual void restore_limit() = 0;
  virtual void give_back() = 0;
};

/// The size of the allocation that lengthens a free block by what is left below the limit, so that it becomes the
/// largest there is; 0 where none would become larger than all are.
///
/// The allocator takes the first addresses with room for the allocation: free blocks and the gaps beside them. A gap
/// is proposed only where that is the one.
std::uint64_t plan_growth(std::span<const MappedStretch> stretches, std::uint64_t left_bytes,
                          std::uint64_t largest_free_bytes);

/// Grows the cache of torch's allocator below its limit where the allocator itself would not.
///
/// torch compares the limit with the size of the whole allocation, though an expandable segment maps only what its last
/// free block lacks. Near the limit it gives back all of its cache instead: it waits for the GPU and maps the
/// same memory again (44 ms for 4.6 GiB on an H200, in each step). That is seen once; from the next step on a free
/// block is lengthened by the memory that the limit leaves, at each miss in the same place. Blocks that are let go a
/// little earlier or later leave other holes, so that one step's growth need not serve all that follow.
///
/// Small blocks and other streams have memory of their own below the limit. Some is spared for them, twice as much each
/// time that they found none.
///
/// Threads: those of the allocator, one at a time.
class CacheGrowth {
 public:
  /// Called where the allocator finds no free block. True: the cache has changed, so that it should search again.
  bool at_miss(GrowingCache& cache);

 private:
  bool should_grow(const CacheFigures& now);
  void note_retry();
  bool is_at_the_place(std::uint64_t allocated_bytes) const;

  std::uint64_t allowed_bytes_ = 0;  ///< what is known holds for this limit
  std::int64_t n_retries_ = 0;
  std::uint64_t last_miss_bytes_ = 0;              ///< allocated at the last miss
  std::optional<std::uint64_t> retried_at_bytes_;  ///< allocated where the cache was given back: the place to grow at
  bool has_grown_ = false;                         ///< since it was given back
  std::uint64_t spared_bytes_ = 64 * kMiB;         ///< below the limit
};

}  // namespace castor
