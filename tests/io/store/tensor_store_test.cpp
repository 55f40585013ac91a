// SPDX-License-Identifier: Apache-2.0
#include <castor/io/tensor_store.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/drives/faulty_engine.h"
#include "../../support/scratch_folder.h"
#include "../../support/test_buffer.h"

namespace castor::test {
namespace {

class TensorStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<TensorStore> open(TensorStoreOptions options = {}) {
    options.folders = {folder_.path()};
    return TensorStore::open(options).value();
  }
  /// A store on a FaultyEngine that `script_` controls.
  std::unique_ptr<TensorStore> open_faulty(TensorStoreOptions options = {}) {
    script_ = std::make_shared<FaultyEngine::Script>();
    options.folders = {folder_.path()};
    auto engine = std::make_unique<FaultyEngine>(make_io_engine(EngineChoice::best).value(), script_);
    return TensorStore::open(options, std::move(engine)).value();
  }
  static void put_and_wait(TensorStore& store, std::uint64_t key, const TestBuffer& bytes) {
    store.put(key, bytes.view()).wait().value();
  }

  ScratchFolder folder_;
  std::shared_ptr<FaultyEngine::Script> script_;
};

TEST_F(TensorStoreTest, ChecksumsThatComeWithAPutAreThoseThatCount) {
  constexpr std::uint64_t kBytes = 21000;
  TensorStoreOptions options;
  options.block_bytes = 8192;
  auto store = open(options);
  const auto ends = store->block_ends(kBytes);
  ASSERT_EQ(ends, (std::vector<std::uint64_t>{8192, 16384, 20480, 21000})) << "whole blocks, whole pages, the rest";
  const TestBuffer out(kBytes, 1), in(kBytes, 99);
  std::vector<std::uint64_t> checksums;
  std::uint64_t begin = 0;
  for (const std::uint64_t end : ends) {
    checksums.push_back(TensorStore::block_checksum(out.view().part(begin, end - begin)));
    begin = end;
  }
  store->put(7, out.view(), checksums).wait().value();
  store->get(7, in.view()).wait().value();
  EXPECT_TRUE(in.holds(1));
  ++checksums[2];
  store->put(7, out.view(), checksums).wait().value();
  const auto refused = store->get(7, in.view()).wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_NE(refused.error().message.find("offset 16384 of the value"), std::string::npos) << refused.error().message;
  store->put(7, out.view()).wait().value();
  EXPECT_TRUE(store->get(7, in.view()).wait().ok()) << "the store's own again";
  checksums.pop_back();
  EXPECT_THROW(store->put(7, out.view(), checksums), ContractViolation);
}

TEST_F(TensorStoreTest, WithoutChecksumsThereAreNoBlocksThatHaveOne) {
  TensorStoreOptions options;
  options.checksums = false;
  EXPECT_TRUE(open(options)->block_ends(21000).empty());
  EXPECT_EQ(TensorStore::block_checksum({}), 0x2d06800538d394c2) << "of nothing: XXH3, 64 bits, seed 0";
}

class TensorStoreSizes : public TensorStoreTest,
                         public ::testing::WithParamInterface<std::tuple<EngineChoice, std::uint64_t>> {};

TEST_P(TensorStoreSizes, AnyNumberOfBytesComesBackAndNoByteMore) {
  const auto [engine, n_bytes] = GetParam();
  TensorStoreOptions options{{folder_.path()}};
  options.engine = engine;
  auto store = TensorStore::open(options);
  if (!store.ok()) GTEST_SKIP() << store.error().message;
  const TestBuffer out(n_bytes, 1), in(n_bytes + 4096, 99);
  (*store)->put(7, out.view()).wait().value();
  (*store)->get(7, in.view().part(0, n_bytes)).wait().value();
  EXPECT_TRUE(std::equal(out.data(), out.data() + n_bytes, in.data()));
  for (std::uint64_t i = n_bytes; i < n_bytes + 4096; ++i)
    ASSERT_EQ(in.data()[i], TestBuffer::at(99, i)) << "byte " << i;
}

INSTANTIATE_TEST_SUITE_P(, TensorStoreSizes,
                         ::testing::Combine(::testing::Values(EngineChoice::uring, EngineChoice::threads),
                                            ::testing::Values(0, 1, 511, 4095, 4096, 4097, 100000, 1048575, 1048576,
                                                              1048577, 3 * 1048576 + 8192 + 13)));

TEST_F(TensorStoreTest, BytesAtAnyAddressComeBack) {
  const auto store = open();
  const std::uint64_t n_bytes = 2 * kMiB + 77;
  const TestBuffer out(n_bytes + 3, 1), in(n_bytes + 4096, 99);
  store->put(1, out.view().part(3, n_bytes)).wait().value();
  store->get(1, in.view().part(1, n_bytes)).wait().value();
  EXPECT_TRUE(std::equal(out.data() + 3, out.data() + 3 + n_bytes, in.data() + 1));
  EXPECT_EQ(in.data()[0], TestBuffer::at(99, 0));
  EXPECT_EQ(in.data()[n_bytes + 1], TestBuffer::at(99, n_bytes + 1));
}

TEST_F(TensorStoreTest, NeighboursAreLeftAlone) {
  const auto store = open();
  const TestBuffer first(5000, 1), second(5000, 2), third(5000, 3), in(5000);
  put_and_wait(*store, 1, first);
  put_and_wait(*store, 2, second);
  put_and_wait(*store, 3, third);
  second.fill(4);
  put_and_wait(*store, 2, second);
  for (const auto& [key, seed] : {std::pair{1, 1}, {2, 4}, {3, 3}}) {
    store->get(key, in.view()).wait().value();
    EXPECT_TRUE(in.holds(seed)) << "key " << key;
  }
}

TEST_F(TensorStoreTest, AGetWaitsForThePutBeforeIt) {
  const auto store = open_faulty();
  script_->set(1, Fault::hold());
  const TestBuffer out(4096, 1), in(4096);
  const Event put = store->put(5, out.view());
  const Event get = store->get(5, in.view());
  const TestBuffer other(4096, 2);
  put_and_wait(*store, 6, other);  // passes both threads of the store while key 5 is held: the get could have run
  EXPECT_FALSE(put.ready());
  EXPECT_FALSE(get.ready());
  EXPECT_EQ(script_->n_requests(), 2u);  // the held write and key 6
  script_->release();
  get.wait().value();
  EXPECT_TRUE(put.ready());
  EXPECT_TRUE(in.holds(1));
}

TEST_F(TensorStoreTest, PutsOfOneKeyLandInTheOrderOfTheCalls) {
  const auto store = open_faulty();
  script_->set(1, Fault::hold());
  const TestBuffer first(4096, 1), second(4096, 2), in(4096);
  store->put(5, first.view());
  const Event later = store->put(5, second.view());
  const TestBuffer other(4096, 3);
  put_and_wait(*store, 6, other);
  EXPECT_FALSE(later.ready());
  EXPECT_EQ(script_->n_requests(), 2u);
  script_->release();
  store->get(5, in.view()).wait().value();
  EXPECT_TRUE(in.holds(2));
}

TEST_F(TensorStoreTest, APutWaitsForTheGetsBeforeIt) {
  const auto store = open_faulty();
  const TestBuffer old(4096, 1), fresh(4096, 2), in_a(4096), in_b(4096);
  put_and_wait(*store, 5, old);
  script_->set(2, Fault::hold());
  const Event get_a = store->get(5, in_a.view());
  const Event get_b = store->get(5, in_b.view());  // runs beside the held one
  const Event put = store->put(5, fresh.view());
  get_b.wait().value();
  EXPECT_FALSE(put.ready());
  EXPECT_EQ(script_->n_requests(), 3u);
  script_->release();
  put.wait().value();
  EXPECT_TRUE(get_a.ready());
  EXPECT_TRUE(in_a.holds(1));
  EXPECT_TRUE(in_b.holds(1));
}

TEST_F(TensorStoreTest, OneHeldKeyDoesNotHoldOthers) {
  const auto store = open_faulty();
  script_->set(1, Fault::hold());
  const TestBuffer out(4096, 1), other(4096, 2), in(4096);
  const Event held = store->put(1, out.view());
  put_and_wait(*store, 2, other);
  store->get(2, in.view()).wait().value();
  EXPECT_TRUE(in.holds(2));
  EXPECT_FALSE(held.ready());
  script_->release();
  EXPECT_TRUE(store->drain().ok());
}

TEST_F(TensorStoreTest, GoingAwayFinishesWhatIsInFlight) {
  const TestBuffer out(3 * kMiB, 1);
  Event put;
  {
    const auto store = open();
    put = store->put(1, out.view());
  }
  ASSERT_TRUE(put.ready());
  EXPECT_TRUE(put.wait().ok());
  EXPECT_TRUE(folder_.empty());
}

// ---- room ----

TEST_F(TensorStoreTest, CountsWhatIsHeldAndMoved) {
  Budget budget(Tier::nvme);
  TensorStoreOptions options;
  options.budget = &budget;
  {
    const auto store = open(options);
    const TestBuffer large(kMiB + 1, 1), small(100, 2), in(kMiB + 1);
    put_and_wait(*store, 1, large);
    put_and_wait(*store, 2, small);
    store->get(1, in.view()).wait().value();
    auto stats = store->stats();
    EXPECT_EQ(stats.allocated_bytes, 1048576u + 4096 + 4096);
    EXPECT_EQ(stats.bytes_written, 1048576u + 4096 + 4096);
    EXPECT_EQ(stats.bytes_read, 1048576u + 4096);
    EXPECT_EQ(budget.used_bytes(), stats.allocated_bytes);
    store->remove(1);
    store->remove(17);  // holds nothing
    stats = store->stats();
    EXPECT_EQ(stats.allocated_bytes, 4096u);
    EXPECT_EQ(stats.peak_allocated_bytes, 1056768u);
    EXPECT_EQ(budget.used_bytes(), 4096u);
  }
  EXPECT_EQ(budget.used_bytes(), 0u);
  EXPECT_EQ(budget.peak_bytes(), 1056768u);
}

TEST_F(TensorStoreTest, PuttingAgainTakesNoMoreRoom) {
  const auto store = open();
  const TestBuffer out(kMiB, 1);
  for (int i = 0; i < 5; ++i) put_and_wait(*store, 1, out);
  EXPECT_EQ(store->stats().peak_allocated_bytes, kMiB);
}

TEST_F(TensorStoreTest, AValueMayChangeItsSize) {
  const auto store = open();
  const TestBuffer small(5000, 1), large(kMiB, 2), in(kMiB);
  put_and_wait(*store, 1, small);
  put_and_wait(*store, 1, large);
  EXPECT_EQ(store->stats().allocated_bytes, kMiB);
  store->get(1, in.view()).wait().value();
  EXPECT_TRUE(in.holds(2));
  put_and_wait(*store, 1, small);
  EXPECT_EQ(store->stats().allocated_bytes, 8192u);
}

TEST_F(TensorStoreTest, RemovingWaitsForWhatIsInFlight) {
  const auto store = open_faulty();
  script_->set(1, Fault::hold());
  const TestBuffer out(4096, 1), in(4096);
  const Event put = store->put(1, out.view());
  std::thread remover([&] { store->remove(1); });
  script_->release();
  remover.join();
  EXPECT_TRUE(put.ready());
  EXPECT_EQ(store->stats().allocated_bytes, 0u);
  EXPECT_FALSE(store->get(1, in.view()).wait().ok());
}

TEST_F(TensorStoreTest, AbandonedEverythingThatTheKernelGivesBackEnds) {
  TensorStoreOptions options;
  options.depth = 1;  // so that blocks wait in the lane
  options.block_bytes = 4096;
  auto store = open_faulty(options);
  script_->set(1, Fault::hold());
  script_->set_cancels(true);
  const TestBuffer out(20 * 4096, 1), in(20 * 4096);
  const Event put = store->put(1, out.view());
  const Event get = store->get(1, in.view());  // waits for the put
  const Event other = store->put(2, out.view());
  script_->wait_for(1);
  store->abandon();
  for (const Event& event : {put, get, other}) {
    const auto ended = event.wait();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().kind, ErrorKind::io);
  }
  EXPECT_NE(get.wait().error().message.find("key 1"), std::string::npos) << get.wait().error().message;
  EXPECT_EQ(store->stats().allocated_bytes, 0u) << "values whose put failed are gone";
  const auto later = store->put(3, out.view()).wait();
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().message, "key 3: given up, because the store is being closed");
  EXPECT_EQ(script_->n_requests(), 1u) << "the drive is asked for nothing more";
}

TEST_F(TensorStoreTest, AbandonedARequestThatTheDriveHasKeepsItsBytesUntilItEnds) {
  auto store = open_faulty();
  script_->set(1, Fault::hold());
  const TestBuffer out(4096, 1);
  const Event held = store->put(1, out.view());
  script_->wait_for(1);
  store->abandon();
  EXPECT_FALSE(held.ready());
  std::thread closer([&] { store.reset(); });
  EXPECT_FALSE(held.wait_for(std::chrono::milliseconds(5)));
  script_->release();
  closer.join();
  EXPECT_TRUE(held.ready());
  EXPECT_TRUE(folder_.empty());
}

TEST_F(TensorStoreTest, ABudgetThatIsTooSmallIsSaidWithItsFigures) {
  Budget budget(Tier::nvme, 2 * kMiB);
  TensorStoreOptions options;
  options.budget = &budget;
  const auto store = open(options);
  const TestBuffer first(kMiB, 1), second(3 * kMiB / 2, 2), in(kMiB);
  put_and_wait(*store, 1, first);
  const auto refused = store->put(2, second.view()).wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_EQ(
      refused.error().message,
      "nvme tier: key 2 needs 1.50 MiB, 1.00 MiB are free under the 2.00 MiB budget; raise it to 2.50 MiB or more");
  const auto drained = store->drain();
  ASSERT_FALSE(drained.ok());
  EXPECT_EQ(drained.error().message, refused.error().message);
  EXPECT_TRUE(store->drain().ok());  // reported once
  EXPECT_EQ(store->get(2, second.view()).wait().error().message, refused.error().message);
  store->get(1, in.view()).wait().value();
  EXPECT_TRUE(in.holds(1));
  EXPECT_EQ(budget.used_bytes(), kMiB);
}

TEST_F(TensorStoreTest, KeysSpreadOverFoldersByBytes) {
  const ScratchFolder second;
  TensorStoreOptions options{{folder_.path(), second.path()}};
  auto script = std::make_shared<FaultyEngine::Script>();
  auto store =
      TensorStore::open(options, std::make_unique<FaultyEngine>(make_io_engine(EngineChoice::threads).value(), script))
          .value();
  const TestBuffer large(kMiB, 1), small(4096, 2);
  put_and_wait(*store, 1, large);  // 1 request: first folder
  put_and_wait(*store, 2, small);  // second folder
  for (std::uint64_t nth = 3; nth < 8; ++nth) {
    script->set(nth, Fault::fail(EIO));
    const auto failed = store->put(nth, small.view()).wait();  // still fewer bytes in the second
    ASSERT_FALSE(failed.ok());
    EXPECT_NE(failed.error().message.find(" of " + second.path() + "/(unnamed file) failed"), std::string::npos)
        << failed.error().message;
  }
}

// ---- faults ----

TEST_F(TensorStoreTest, AKeyThatWasNeverPutIsAnError) {
  const auto store = open();
  const TestBuffer in(10);
  const auto refused = store->get(3, in.view()).wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message, "key 3 holds nothing; put it first");
}

TEST_F(TensorStoreTest, AnotherSizeThanThatOfTheValueIsAnError) {
  const auto store = open();
  const TestBuffer out(100, 1), in(50);
  put_and_wait(*store, 3, out);
  const auto refused = store->get(3, in.view()).wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "key 3 holds 100 bytes, 50 were asked for; ask for all of them");
}

TEST_F(TensorStoreTest, FlippedBitsAreFound) {
  const auto store = open_faulty();
  const TestBuffer out(3 * kMiB, 1), in(3 * kMiB);
  put_and_wait(*store, 9, out);
  script_->set(5, Fault::corrupt());  // requests 1 to 3 wrote; the second read
  const auto refused = store->get(9, in.view()).wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_EQ(refused.error().message.find("key 9: the 1048576 bytes at offset 1048576 of the value, read from " +
                                         folder_.path()),
            0u)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("are not those that were put (xxh3-64 "), std::string::npos);
  EXPECT_TRUE(store->drain().ok());  // only the caller of a get sees its error
  store->get(9, in.view()).wait().value();
  EXPECT_TRUE(in.holds(1));
}

TEST_F(TensorStoreTest, WithoutChecksumsFlippedBitsComeThrough) {
  TensorStoreOptions options;
  options.checksums = false;
  const auto store = open_faulty(options);
  const TestBuffer out(4096, 1), in(4096);
  put_and_wait(*store, 9, out);
  script_->set(2, Fault::corrupt());
  EXPECT_TRUE(store->get(9, in.view()).wait().ok());
  EXPECT_FALSE(in.holds(1));
}

/// The n-th request of a run with puts, gets, a replacement and a removal meets `fault`, for n = 1, 2, … until a run
/// has fewer than n requests.
class TensorStoreFaults : public TensorStoreTest, public ::testing::WithParamInterface<Fault> {
 protected:
  /// Whether the outcome was one the contract allows: the right bytes or an error of kind io. Counts the errors.
  void check_get(TensorStore& store, std::uint64_t key, const TestBuffer& in, std::uint64_t seed) {
    const auto outcome = store.get(key, in.view()).wait();
    if (outcome.ok()) {
      EXPECT_TRUE(in.holds(seed)) << "key " << key;
    } else {
      count(outcome);
    }
  }
  void count(const Result<void>& outcome) {
    if (outcome.ok()) return;
    EXPECT_EQ(outcome.error().kind, ErrorKind::io) << outcome.error().message;
    EXPECT_NE(outcome.error().message.find("key "), std::string::npos) << outcome.error().message;
    ++n_errors_;
  }
  int n_errors_ = 0;
};

TEST_P(TensorStoreFaults, TheNthRequestFailing) {
  constexpr std::uint64_t kLarge = 2 * kMiB + 100, kSmall = 5000;  // 3 and 2 requests
  std::uint64_t nth = 1;
  for (bool reached = true; reached; ++nth) {
    SCOPED_TRACE("request " + std::to_string(nth));
    n_errors_ = 0;
    Budget budget(Tier::nvme);
    TensorStoreOptions options;
    options.budget = &budget;
    auto store = open_faulty(options);
    script_->set(nth, GetParam());
    const TestBuffer large(kLarge, 1), small(kSmall, 2), fresh(kSmall, 3), in_large(kLarge), in_small(kSmall);
    const Event put_large = store->put(1, large.view());
    const Event put_small = store->put(2, small.view());
    count(put_large.wait());
    count(put_small.wait());
    check_get(*store, 1, in_large, 1);
    check_get(*store, 2, in_small, 2);
    count(store->put(2, fresh.view()).wait());
    check_get(*store, 2, in_small, 3);
    const bool a_put_failed = !store->drain().ok();
    reached = script_->reached();
    EXPECT_EQ(n_errors_ > 0, reached);
    EXPECT_EQ(a_put_failed, reached && (nth <= 5 || nth == 11 || nth == 12));
    script_->clear();
    store->put(1, large.view()).wait().value();  // the store still works
    store->get(1, in_large.view()).wait().value();
    EXPECT_TRUE(in_large.holds(1));
    store->remove(1);
    store->remove(2);
    EXPECT_EQ(budget.used_bytes(), 0u);
  }
  // put 1 (3) + put 2 (2) + get 1 (3) + get 2 (2) + put 2 (2) + get 2 (2) = 14, and one round that reached nothing
  EXPECT_EQ(nth, 16u);
}

INSTANTIATE_TEST_SUITE_P(, TensorStoreFaults,
                         ::testing::Values(Fault::fail(EIO), Fault::fail(ENOSPC), Fault::shorten()),
                         [](const auto& info) {
                           return info.param.kind == Fault::Kind::shorten ? std::string("short")
                                  : info.param.error_number == EIO        ? "EIO"
                                                                          : "ENOSPC";
                         });

TEST_F(TensorStoreTest, FoldersThatCannotBeUsedAreRefusedWhenOpening) {
  EXPECT_EQ(TensorStore::open({}).error().kind, ErrorKind::usage);
  const auto missing = TensorStore::open({{folder_.path(), folder_.path() + "/none"}});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::io);
  EXPECT_NE(missing.error().message.find("/none: No such file or directory; create it"), std::string::npos);
}

// ---- all at once ----

TEST_F(TensorStoreTest, AgreesWithAMapUnderRandomCalls) {
  constexpr std::uint64_t kNKeys = 12, kMaxBytes = 300000;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto store = open();
  std::map<std::uint64_t, std::uint64_t> version, n_bytes;
  std::vector<std::unique_ptr<TestBuffer>> buffers;
  std::vector<std::pair<Event, std::function<bool()>>> gets;
  for (std::uint64_t step = 1; step <= 400; ++step) {
    const std::uint64_t key = random() % kNKeys;
    const auto choice = random() % 10;
    if (choice == 0) {
      store->remove(key);
      version.erase(key);
    } else if (choice < 5 || !version.count(key)) {
      n_bytes[key] = random() % kMaxBytes;
      version[key] = step;
      buffers.push_back(std::make_unique<TestBuffer>(n_bytes[key], step));
      store->put(key, buffers.back()->view());
    } else {
      buffers.push_back(std::make_unique<TestBuffer>(n_bytes[key]));
      const auto* in = buffers.back().get();
      const auto want = version[key];
      gets.emplace_back(store->get(key, in->view()), [in, want] { return in->holds(want); });
    }
  }
  store->drain().value();
  for (const auto& [event, right] : gets) {
    ASSERT_TRUE(event.ready());
    ASSERT_TRUE(event.wait().ok());
    ASSERT_TRUE(right());
  }
  for (std::uint64_t key = 0; key < kNKeys; ++key) store->remove(key);
  EXPECT_EQ(store->stats().allocated_bytes, 0u);
}

TEST_F(TensorStoreTest, ManyThreadsUseItAtOnce) {
  const auto store = open();
  std::vector<std::thread> threads;
  std::atomic<int> n_wrong{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 20; ++i) {
        const std::uint64_t key = t * 5 + i % 5;
        const TestBuffer out(70000 + i, key + i), in(70000 + i);
        store->put(key, out.view());
        if (!store->get(key, in.view()).wait().ok() || !in.holds(key + i)) ++n_wrong;
        if (i % 7 == 0) store->remove(key);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_TRUE(store->drain().ok());
}

}  // namespace
}  // namespace castor::test
