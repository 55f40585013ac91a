// SPDX-License-Identifier: Apache-2.0
// In steady state a put, a get and a request allocate nothing, on any thread.
//
// A program of its own: it replaces malloc. Warm-up allocates everything that is used again: with requests held back,
// the largest number of operations is under way at a time, each of the largest value, and every piece of the store has
// the largest block to copy. So later runs find enough of everything, whatever the order of the threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/tensor_store.h>

#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"
#include "counted_allocations.h"
#include "gated_engine.h"
#include "stripes/stripe_set.h"

namespace castor::test {
namespace {

constexpr std::size_t kDepth = 8;
constexpr int kNRounds = 64;  // of 16 or 20 operations: 1056
constexpr std::uint64_t kLargest = 4 * kMiB + 12345;

TEST(AllocationCount, SeesWhatIsAllocated) {
  const AllocationCount count;
  auto number = std::make_unique<int>(1);
  std::thread([&number] { number = std::make_unique<int>(2); }).join();
  TestBuffer buffer(4096);
  EXPECT_GE(count.so_far(), 4u);  // two numbers, a thread, a buffer
}

struct Value {
  std::uint64_t n_bytes;
  std::uint64_t shift_bytes;  ///< off a page
};
constexpr Value kValues[] = {{4096, 0},      {4096, 3}, {5000, 0},      {64 * kKiB, 0}, {64 * kKiB + 1, 5},
                             {300000, 1000}, {kMiB, 0}, {kMiB + 77, 8}, {4 * kMiB, 0},  {kLargest, 1}};
constexpr std::size_t kNValues = std::size(kValues);

class StoreAllocations : public ::testing::TestWithParam<std::tuple<EngineChoice, bool>> {
 protected:
  /// Skips where the engine cannot be set up.
  void open(Durability durability) {
    options_.durability = durability;
    options_.folders = {folder_.path()};
    options_.budget = &budget_;
    options_.depth = kDepth;
    options_.checksums = std::get<1>(GetParam());
    auto inner = make_io_engine(std::get<0>(GetParam()));
    if (!inner.ok()) GTEST_SKIP() << inner.error().message;
    auto engine = std::make_unique<GatedEngine>(std::move(inner).value());
    engine_ = engine.get();
    store_ = TensorStore::open(options_, std::move(engine)).value();
    memory_ = std::make_unique<TestBuffer>(kLargest + 4096, 1);
    warm_up();
  }

  /// Keys with too many digits for a string's inline buffer: text made of them would allocate.
  static std::uint64_t key_of(std::size_t i) { return 1'000'000'000'000'000'000 + i; }
  BufferView bytes(std::size_t key) const {
    return memory_->view().part(kValues[key].shift_bytes, kValues[key].n_bytes);
  }

  void warm_up() {
    engine_->close();
    const TestBuffer block_for_each(2 * kDepth * kMiB, 1);
    const auto unaligned = block_for_each.view().part(1, kDepth * kMiB);
    const Event all_pieces = store_->put(kNValues, unaligned);
    std::vector<Event> events;
    for (std::size_t i = 0; i < 2 * kNValues + 4; ++i) events.push_back(store_->put(kNValues + 1, bytes(kNValues - 1)));
    engine_->open();
    store_->drain().value();
    for (std::size_t key = 0; key < kNValues; ++key) store_->put(key_of(key), bytes(key)).wait().value();
    for (const Event& event : events) event.wait().value();
    events.clear();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(one_round(0));
  }

  /// Puts and gets all values at once; the two of 4 MiB only where `i` is a multiple of 8. Returns whether that worked.
  bool one_round(int i) {
    const std::size_t n = n_values(i);
    bool well = true;
    for (std::size_t key = 0; key < n; ++key) puts_[key] = store_->put(key_of(key), bytes(key));
    for (std::size_t key = 0; key < n; ++key) gets_[key] = store_->get(key_of(key), bytes(key));
    for (std::size_t key = 0; key < n; ++key) well = puts_[key].wait().ok() && gets_[key].wait().ok() && well;
    return well;
  }
  static std::size_t n_values(int i) { return i % 8 == 0 ? kNValues : kNValues - 2; }

  const ScratchFolder folder_{ScratchFolder::quick_parent()};
  GatedEngine* engine_ = nullptr;         // borrowed from the store
  Budget budget_{Tier::nvme, 64 * kMiB};  // keeps the store from setting much room aside ahead
  TensorStoreOptions options_;
  std::unique_ptr<TensorStore> store_;
  std::unique_ptr<TestBuffer> memory_;
  Event puts_[kNValues], gets_[kNValues];
};

TEST_P(StoreAllocations, PutsAndGetsMakeNone) {
  open(Durability::scratch);
  if (IsSkipped()) return;
  const AllocationCount count;
  bool well = true;
  for (int i = 0; i < kNRounds; ++i) well = one_round(i) && well;
  EXPECT_EQ(count.so_far(), 0u);
  EXPECT_TRUE(well);
}

TEST_P(StoreAllocations, OneAtATimeMakesNone) {
  open(Durability::scratch);
  if (IsSkipped()) return;
  const AllocationCount count;
  bool well = true;
  for (int i = 0; i < kNRounds; ++i) {
    for (std::size_t key = 0; key < n_values(i); ++key) {
      well = store_->put(key_of(key), bytes(key)).wait().ok() && well;
      well = store_->get(key_of(key), bytes(key)).wait().ok() && well;
    }
  }
  EXPECT_EQ(count.so_far(), 0u);
  EXPECT_TRUE(well);
}

TEST_P(StoreAllocations, PutsIntoTheOtherSlotMakeNone) {
  open(Durability::commit);
  if (IsSkipped()) return;
  std::uint64_t n_allocations = 0;
  bool well = true;
  for (std::uint64_t step = 0; step < 30; ++step) {
    {
      const AllocationCount count;
      for (int i = 0; i < 2; ++i) well = one_round(i) && well;
      if (step > 2) n_allocations += count.so_far();  // the first steps create the second slots
    }
    store_->commit(step).wait().value();
  }
  EXPECT_EQ(n_allocations, 0u);
  EXPECT_TRUE(well);
}

const auto store_name = [](const auto& info) {
  const auto [engine, checksums] = info.param;
  return std::string(engine == EngineChoice::uring ? "uring" : "threads") + (checksums ? "_checksums" : "_plain");
};
INSTANTIATE_TEST_SUITE_P(, StoreAllocations,
                         ::testing::Combine(::testing::Values(EngineChoice::uring, EngineChoice::threads),
                                            ::testing::Bool()),
                         store_name);

TEST(StripeSetAllocations, LookingWhetherAValueShouldMoveMakesNone) {
  const ScratchFolder first(ScratchFolder::quick_parent()), second(ScratchFolder::quick_parent());
  StripeOptions options;
  options.folders = {first.path(), second.path()};
  const auto set = StripeSet::open(options).value();
  const Placement place = set->take(1, 4 * kMiB).value();
  const AllocationCount count;
  for (int i = 0; i < 1000; ++i) (void)set->worth_moving(place);
  EXPECT_EQ(count.so_far(), 0u);
}

/// Counts down the requests that have ended.
class Countdown {
 public:
  explicit Countdown(int n) : n_left_(n) {}
  void one_less() {
    const std::lock_guard lock(mutex_);
    if (--n_left_ == 0) changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_left_;
};

class CountingSink final : public IoSink {
 public:
  CountingSink(Countdown& left, std::atomic<int>& n_failed) : left_(left), n_failed_(n_failed) {}
  std::optional<IoRequest> on_complete(const IoOutcome& outcome) noexcept override {
    n_failed_ += outcome.ok() ? 0 : 1;
    left_.one_less();
    return std::nullopt;
  }

 private:
  Countdown& left_;
  std::atomic<int>& n_failed_;
};

class EngineAllocations : public ::testing::TestWithParam<EngineChoice> {};

TEST_P(EngineAllocations, RequestsMakeNone) {
  IoEngineOptions options;
  options.choice = GetParam();
  options.depth = 16;
  auto engine = make_io_engine(options);
  if (!engine.ok()) GTEST_SKIP() << engine.error().message;
  const ScratchFolder folder(ScratchFolder::quick_parent());
  const DirectFile file = DirectFile::create_unnamed(folder.path()).value();
  const TestBuffer bytes(64 * kKiB, 1);
  file.write_bytes(0, bytes.view()).value();
  constexpr int kNRequests = 1200;
  Countdown left(kNRequests);
  std::atomic<int> n_failed = 0;
  std::vector<CountingSink> sinks(kNRequests, CountingSink(left, n_failed));
  (*engine)->submit(file.read_request(0, bytes.view())).wait().value();
  std::uint64_t n_allocations = 0;
  {
    const AllocationCount count;
    for (int i = 0; i < kNRequests; ++i) {
      auto request = i % 10 == 9 ? file.sync_request() : file.read_request(0, bytes.view().part(0, 4096 << i % 4));
      if (i % 3 == 0) request.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
      (*engine)->start(request, sinks[static_cast<std::size_t>(i)]);
    }
    left.wait();
    n_allocations = count.so_far();
  }
  EXPECT_EQ(n_allocations, 0u);
  engine->reset();
  EXPECT_EQ(n_failed, 0);
}

INSTANTIATE_TEST_SUITE_P(, EngineAllocations,
                         ::testing::Values(EngineChoice::uring, EngineChoice::threads, EngineChoice::null));

}  // namespace
}  // namespace castor::test
