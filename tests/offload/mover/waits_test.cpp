// SPDX-License-Identifier: Apache-2.0
// A mover whose drive never answers: its waits end when the program is interrupted, or after a time.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../support/scheduled_mover.h"

namespace castor {
namespace {

/// A drive that takes writes at once and never finishes a read until release().
class HangingDrive final : public SpillStore {
 public:
  Event write(ChunkId, BufferView, std::span<const std::uint64_t>) override { return {}; }
  Event read(ChunkId, BufferView) override { return Event(read_); }
  void forget(ChunkId) override {}
  std::vector<std::uint64_t> block_ends(std::uint64_t) const override { return {}; }
  std::uint64_t checksum(BufferView) const override { return 0; }
  void release() {
    if (!std::exchange(released_, true)) read_->complete({});
  }

 private:
  const std::shared_ptr<HostEventState> read_ = std::make_shared<HostEventState>();  // owners: this and the readers
  bool released_ = false;
};

struct HangingWorld {
  explicit HangingWorld(WaitLimits limits) {
    auto parts = mover_parts(tiers);
    parts.wait_limits = std::move(limits);
    mover = std::make_unique<StatefulTensorMgr>(parts);
    chunk = tiers.chunks.add(ChunkKind::state, 4096, "optimizer states of chunk 0");
    mover->open(chunk, Tier::host).value();
    tiers.chunks.written(chunk, Tier::host);
    mover->push_down(chunk, Tier::host).value();
    (void)tiers.chunks.reap(Tier::host);
  }
  ~HangingWorld() { drive.release(); }

  Result<void> use() {
    const std::array needs = {Need{chunk, Tier::host, Access::read}};
    return mover->begin(needs);
  }

  HangingDrive drive;
  Tiers tiers{Budget::kUnlimited, Budget::kUnlimited, true, make_cpu_device(), &drive};
  std::unique_ptr<StatefulTensorMgr> mover;
  ChunkId chunk{};
};

TEST(Waits, AnInterruptEndsTheWaitForADriveThatHangs) {
  int n_asked = 0;
  HangingWorld world({[&] { return ++n_asked == 3; }, {}});
  const auto begun = world.use();
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::interrupted);
  EXPECT_EQ(begun.error().message, "interrupted while the training waited for optimizer states of chunk 0");
  EXPECT_EQ(n_asked, 3);
  EXPECT_EQ(world.tiers.chunks.chunk(world.chunk).at(Tier::host).n_pins, 0u) << "a moment that failed holds nothing";
}

TEST(Waits, AWaitEndsAfterTheLongestTimeAndSaysSo) {
  HangingWorld world({{}, std::chrono::microseconds(5)});  // the timeline's clock advances by 1 µs at each reading
  const auto begun = world.use();
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::io);
  const std::string expected = "the training gave up after it had waited 0.0 s for optimizer states of chunk 0; ";
  EXPECT_EQ(begun.error().message.substr(0, expected.size()), expected)
      << begun.error().message;
  EXPECT_NE(begun.error().message.find("raise io_timeout"), std::string::npos) << begun.error().message;
  EXPECT_GE(world.mover->wait_seconds(), 5e-6);
}

TEST(Waits, WithoutLimitsTheWaitLastsUntilTheBytesCome) {
  HangingWorld world({[] { return false; }, std::chrono::hours(1)});
  std::thread later([&] { world.drive.release(); });
  const auto begun = world.use();
  later.join();
  EXPECT_TRUE(begun.ok());
}

}  // namespace
}  // namespace castor
