// SPDX-License-Identifier: Apache-2.0
#include <castor/chunk/copy_memory.h>

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "../support/deferred_device.h"
#include "filled_chunks.h"

namespace castor {
namespace {

using std::chrono::nanoseconds;

class CopyMemoryTest : public ::testing::Test {
 protected:
  CopyMemoryTest() : chunks_(3), memory_(chunks_, tiers_.pooled_device, tiers_.pooled_host, compute_) {
    for (Chunk& chunk : chunks_) chunk.n_bytes = kBytes;
    for (const ChunkId id : chunks_.ids()) memory_.allocate(id, Tier::host).value();
  }

  ChunkCopy& on_host(ChunkId id) { return chunks_[id].at(Tier::host); }
  Result<std::uint64_t> reap() {
    return memory_.reap(Tier::host, [](ChunkId) { return Result<void>(); });
  }

  Tiers tiers_;
  test::DeferredStream compute_;
  IndexedVector<ChunkId, Chunk> chunks_;
  CopyMemory memory_;
};

TEST_F(CopyMemoryTest, ACopyThatLeavesIsFreedOnceItIsQuietAndNotPinned) {
  const auto reading = std::make_shared<HostEventState>();  // owners: this, and the copy
  on_host(ChunkId{0}).add_reader(Event(reading));
  on_host(ChunkId{0}).n_pins = 1;
  memory_.drop(ChunkId{0}, Tier::host);
  EXPECT_EQ(reap().value(), 0u);
  on_host(ChunkId{0}).n_pins = 0;
  EXPECT_EQ(reap().value(), 0u) << "it is still read";
  reading->complete({});
  EXPECT_EQ(reap().value(), kBytes);
  EXPECT_FALSE(on_host(ChunkId{0}).buffer);
  EXPECT_FALSE(memory_.leaving(Tier::host));
}

TEST_F(CopyMemoryTest, ACopyThatIsKeptAfterItsDropStays) {
  memory_.drop(ChunkId{0}, Tier::host);
  on_host(ChunkId{0}).leaving = false;
  EXPECT_EQ(reap().value(), 0u);
  EXPECT_TRUE(on_host(ChunkId{0}).buffer);
  memory_.drop(ChunkId{0}, Tier::host);
  EXPECT_EQ(reap().value(), kBytes) << "and may be dropped again";
}

TEST_F(CopyMemoryTest, ACopyThatIsKeptAsItSettlesEndsTheReap) {
  for (const ChunkId id : {ChunkId{0}, ChunkId{1}}) memory_.drop(id, Tier::host);
  const auto reaped = memory_.reap(Tier::host, [this](ChunkId id) -> Result<void> {
    on_host(id).leaving = false;
    return Error{ErrorKind::io, "its bytes did not get away"};
  });
  ASSERT_FALSE(reaped.ok());
  EXPECT_EQ(reaped.error().kind, ErrorKind::io);
  EXPECT_TRUE(on_host(ChunkId{0}).buffer);
  EXPECT_EQ(reap().value(), kBytes) << "that of the other copy";
}

TEST_F(CopyMemoryTest, OnlyCopiesThatLeaveUnpinnedAreWaitedFor) {
  EXPECT_FALSE(memory_.wait_for_leaving(Tier::host, nanoseconds(1)));
  on_host(ChunkId{0}).n_pins = 1;
  memory_.drop(ChunkId{0}, Tier::host);
  EXPECT_TRUE(memory_.leaving(Tier::host));
  EXPECT_FALSE(memory_.wait_for_leaving(Tier::host, nanoseconds(1)));
  memory_.drop(ChunkId{1}, Tier::host);
  EXPECT_TRUE(memory_.wait_for_leaving(Tier::host, nanoseconds(1)));
}

TEST_F(CopyMemoryTest, ADeviceSlotIsFreeAfterTheWorkThatWasQueuedBeforeTheDrop) {
  memory_.allocate(ChunkId{0}, Tier::device).value();
  std::byte source{1}, target{0};
  (void)compute_.copy(&target, &source, 1);
  memory_.drop(ChunkId{0}, Tier::device);
  EXPECT_FALSE(memory_.slots_free().ready());
  ASSERT_TRUE(compute_.synchronize().ok());
  EXPECT_TRUE(memory_.slots_free().ready());
}

TEST_F(CopyMemoryTest, ACopyThatIsDroppedEverywhereIsCurrentNowhere) {
  on_host(ChunkId{0}).current = true;
  memory_.drop_all(ChunkId{0});
  EXPECT_FALSE(chunks_[ChunkId{0}].has_contents());
  EXPECT_EQ(reap().value(), kBytes);
}

}  // namespace
}  // namespace castor
