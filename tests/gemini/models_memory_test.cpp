// SPDX-License-Identifier: Apache-2.0
#include "engine_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "allocator_host.h"

namespace castor {
namespace {

constexpr std::uint64_t kTotalBytes = 8 * kGiB;

/// The limit of torch's allocator: what it counts for a block, and what it leaves of a limit (allocator_share).
class TorchsLimit final : public DeviceCalls {
 public:
  Result<void*> allocate(std::uint64_t n_bytes) override {
    const std::uint64_t counted = n_bytes <= kMiB       ? 2 * kMiB
                                  : n_bytes < 10 * kMiB ? 20 * kMiB
                                                        : (n_bytes + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    if (reserved_bytes_ + counted > limit_bytes_ - std::min(limit_bytes_ / 2, 20 * kMiB) ||
        reserved_bytes_ + counted > kTotalBytes)
      return Error{ErrorKind::does_not_fit, "CUDA out of memory"};
    reserved_bytes_ += counted;
    return &some_;
  }
  void deallocate(void*, std::uint64_t n_bytes) override { reserved_bytes_ -= n_bytes; }
  Result<castor_device_memory> memory() override {
    return castor_device_memory{sizeof(castor_device_memory), 0, 0, reserved_bytes_, reserved_bytes_, kTotalBytes};
  }
  void limit(std::uint64_t n_bytes) override { limit_bytes_ = n_bytes; }
  void hold(std::uint64_t n_bytes) { reserved_bytes_ = n_bytes; }

 private:
  std::uint64_t reserved_bytes_ = 0, limit_bytes_ = kTotalBytes;
  char some_ = 0;
};

/// What a run with `budget_bytes` is told when chunks take `n_bytes`, where `own_bytes` of the budget lie beside the allocator.
Result<void*> allocate(TorchsLimit& allocator, std::uint64_t budget_bytes, std::uint64_t own_bytes,
                       std::uint64_t n_bytes) {
  test::AllocatorHost host(allocator);
  ModelsMemory memory(host, budget_bytes);
  memory.limit(budget_bytes - own_bytes);
  return memory.allocate(n_bytes);
}

TEST(ModelsMemory, AdvisesABudgetThatIsEnough) {
  for (const std::uint64_t n_bytes : {16 * kKiB, kMiB, 3 * kMiB, 10 * kMiB, 33 * kMiB + 512})
    for (const std::uint64_t held_bytes : {std::uint64_t{0}, 2 * kMiB, 66 * kMiB})
      for (std::uint64_t budget_bytes = 8 * kMiB; budget_bytes <= 160 * kMiB; budget_bytes += 333 * kKiB) {
        constexpr std::uint64_t kOwnBytes = 4 * kMiB;
        TorchsLimit allocator;
        allocator.hold(held_bytes);
        const Result<void*> refused = allocate(allocator, budget_bytes, kOwnBytes, n_bytes);
        if (refused.ok()) continue;
        ASSERT_TRUE(refused.error().shortage) << n_bytes << " " << held_bytes << " " << budget_bytes;
        const std::uint64_t advised_bytes = refused.error().shortage->needed_bytes;
        ASSERT_GT(advised_bytes, budget_bytes);
        EXPECT_TRUE(allocate(allocator, advised_bytes, kOwnBytes, n_bytes).ok())
            << n_bytes << " " << held_bytes << " " << budget_bytes << " " << advised_bytes;
      }
}

TEST(ModelsMemory, AdvisesNoBudgetWhereTheGpuIsFull) {
  TorchsLimit allocator;
  allocator.hold(kTotalBytes - kMiB);
  const Result<void*> refused = allocate(allocator, 16 * kGiB, 0, 2 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "CUDA out of memory");
}

}  // namespace
}  // namespace castor
