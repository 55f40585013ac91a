// SPDX-License-Identifier: Apache-2.0
// The store against a map in memory: random puts, gets, removals, commits and openings, many of them under way at a
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/io/tensor_store.h>

#include "../../support/scratch_folder.h"
#include "value_buffer.h"

namespace castor::test {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;
constexpr std::uint64_t kSizes[] = {0, 1, 17, 4095, 4096, 4097, 8192, 12388, 20480, 33333, 65536};

struct Version {
  std::uint64_t n_bytes;
  std::uint64_t seed;
};
using Values = std::map<std::uint64_t, Version>;

/// Whole pages, and at least one.
std::uint64_t room_bytes(const Values& values) {
  std::uint64_t sum = 0;
  for (const auto& [key, version] : values) sum += std::max<std::uint64_t>((version.n_bytes + 4095) / 4096, 1) * 4096;
  return sum;
}

/// A store, its expected values, and the operations under way. Everything follows from the random numbers given.
class StoreAndModel {
 public:
  StoreAndModel(std::mt19937& random, std::uint64_t first_key, std::uint64_t n_keys)
      : random_(random), first_key_(first_key), n_keys_(n_keys) {}

  void put(TensorStore& store) {
    const auto key = random_key();
    const Version version{kSizes[random_() % std::size(kSizes)], random_()};
    ValueBuffer& bytes = buffers_.emplace_back(version.n_bytes, random_shift());
    bytes.fill(version.seed);
    puts_.push_back(store.put(key, bytes.view()));
    now_.insert_or_assign(key, version);
  }

  /// Now and then of a missing key, or of another size than the value's.
  void get(TensorStore& store) {
    const auto key = random_key();
    const auto found = now_.find(key);
    const auto n_bytes = found == now_.end() || random_() % 16 == 0 ? 100 : found->second.n_bytes;
    ValueBuffer& bytes = buffers_.emplace_back(n_bytes, random_shift());
    const bool suits = found != now_.end() && found->second.n_bytes == n_bytes;
    gets_.push_back({store.get(key, bytes.view()), &bytes, suits ? std::optional(found->second.seed) : std::nullopt});
  }

  void remove(TensorStore& store) {
    const auto key = random_key();
    store.remove(key);
    now_.erase(key);
  }

  /// Waits for the operations under way and checks them.
  void settle() {
    for (const auto& done : puts_) expect_ok(done.wait());
    for (const auto& get : gets_) {
      const auto outcome = get.done.wait();
      if (get.want) {
        expect_ok(outcome);
        EXPECT_TRUE(get.bytes->holds(*get.want));
      } else if (outcome.ok()) {
        ADD_FAILURE() << "a get that asks for what is not there went well";
      } else {
        EXPECT_EQ(outcome.error().kind, ErrorKind::usage) << outcome.error().message;
      }
    }
    puts_.clear();
    gets_.clear();
    buffers_.clear();
  }

  void get_all(TensorStore& store) {
    for (const auto& [key, version] : now_) {
      ValueBuffer& bytes = buffers_.emplace_back(version.n_bytes, random_shift());
      gets_.push_back({store.get(key, bytes.view()), &bytes, version.seed});
    }
    settle();
  }

  Values& now() { return now_; }
  std::size_t n_under_way() const { return puts_.size() + gets_.size(); }

 private:
  struct Get {
    Event done;
    const ValueBuffer* bytes;
    std::optional<std::uint64_t> want;  ///< the seed; nothing: an error
  };
  static void expect_ok(const Result<void>& outcome) {
    if (!outcome.ok()) ADD_FAILURE() << outcome.error().message;
  }
  std::uint64_t random_key() { return first_key_ + random_() % n_keys_; }
  std::uint64_t random_shift() { return random_() % 3 == 0 ? 1 + random_() % 600 : 0; }

  std::mt19937& random_;
  const std::uint64_t first_key_, n_keys_;
  Values now_;
  std::deque<ValueBuffer> buffers_;
  std::vector<Event> puts_;
  std::vector<Get> gets_;
};

TensorStoreOptions random_options(std::mt19937& random, Budget& budget) {
  TensorStoreOptions options;
  options.budget = &budget;
  options.engine = random() % 2 == 0 ? EngineChoice::best : EngineChoice::threads;
  options.checksums = random() % 4 != 0;
  options.durability = random() % 3 == 0 ? Durability::scratch : Durability::commit;
  options.block_bytes = kBlockBytes << random() % 3;
  options.depth = 1 + random() % 6;
  options.n_threads = 1 + random() % 3;
  return options;
}

/// One seed's walk.
class StoreWalk {
 public:
  explicit StoreWalk(std::uint32_t seed) : random_(seed), options_(random_options(random_, budget_)) {
    options_.folders = {first_.path()};
    if (random_() % 2 == 0) options_.folders.push_back(second_.path());
    open();
  }

  void run(int n_calls) {
    for (int i = 0; i < n_calls && !::testing::Test::HasFailure(); ++i) call();
    reopen();
    store_.reset();
    EXPECT_EQ(budget_.used_bytes(), 0u);
  }

 private:
  void call() {
    const auto choice = random_() % 100;
    if (choice < 42) return model_.put(*store_);
    if (choice < 75) return model_.get(*store_);
    if (choice < 84) return model_.remove(*store_);
    if (choice < 92) return commit();
    if (choice < 95) return reopen();
    check();
  }

  void open() {
    auto opened = TensorStore::open(options_);
    store_ = std::move(opened).value();
    check();
  }

  void commit() {
    if (options_.durability == Durability::scratch) return model_.settle();
    step_ = step_.value_or(0) + 1 + random_() % 3;
    committed_ = model_.now();
    commits_.push_back(store_->commit(*step_));
  }

  /// Opens the store again: values that were not committed are gone; the folders may be in another order.
  void reopen() {
    store_.reset();
    settle();
    model_.now() = committed_;
    std::shuffle(options_.folders.begin(), options_.folders.end(), random_);
    open();
    EXPECT_EQ(store_->stats().allocated_bytes, room_bytes(committed_));
    EXPECT_EQ(budget_.used_bytes(), room_bytes(committed_));
  }

  void settle() {
    model_.settle();
    for (const auto& done : commits_) done.wait().value();
    commits_.clear();
  }

  void check() {
    settle();
    store_->drain().value();
    EXPECT_EQ(store_->committed_step(), step_);
    std::vector<std::uint64_t> keys;
    for (const auto& [key, version] : model_.now()) {
      keys.push_back(key);
      EXPECT_EQ(store_->value_bytes(key).value(), version.n_bytes);
    }
    EXPECT_EQ(store_->keys(), keys);
    EXPECT_GE(store_->stats().allocated_bytes, room_bytes(model_.now()));
    EXPECT_EQ(store_->stats().allocated_bytes, budget_.used_bytes());
    const bool one_slot = options_.durability == Durability::scratch;
    EXPECT_TRUE(!one_slot || store_->stats().allocated_bytes == room_bytes(model_.now()));
    model_.get_all(*store_);
  }

  std::mt19937 random_;
  const ScratchFolder first_{ScratchFolder::quick_parent()}, second_{ScratchFolder::quick_parent()};
  Budget budget_{Tier::nvme, 4 * kMiB};
  TensorStoreOptions options_;
  StoreAndModel model_{random_, 0, 6};
  Values committed_;
  std::optional<std::uint64_t> step_;
  std::vector<Event> commits_;
  std::unique_ptr<TensorStore> store_;
};

TEST(StoreModel, TheStoreDoesAsAMapWould) {
  constexpr std::uint32_t kNSeeds = 300;
  const auto first_seed = std::random_device{}();
  for (std::uint32_t i = 0; i < kNSeeds && !HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + i));
    StoreWalk walk(first_seed + i);
    walk.run(60);
  }
}

/// Threads with keys of their own share a store; commits run at any moment between their operations.
TEST(StoreModel, SeveralThreadsDoNotDisturbEachOther) {
  constexpr std::uint64_t kNThreads = 4, kKeysEach = 3;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const ScratchFolder first(ScratchFolder::quick_parent()), second(ScratchFolder::quick_parent());
  Budget budget(Tier::nvme, 8 * kMiB);
  TensorStoreOptions options;
  options.folders = {first.path(), second.path()};
  options.budget = &budget;
  options.durability = Durability::commit;
  options.block_bytes = kBlockBytes;
  options.depth = 4;
  std::vector<std::mt19937> random;
  for (std::uint32_t i = 0; i < kNThreads; ++i) random.emplace_back(seed + i);
  std::deque<StoreAndModel> models;
  for (std::uint64_t i = 0; i < kNThreads; ++i) models.emplace_back(random[i], i * kKeysEach, kKeysEach);
  {
    const auto store = TensorStore::open(options).value();
    std::atomic<std::uint64_t> n_busy = kNThreads;
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kNThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int call = 0; call < 400; ++call) {
          const auto choice = random[i]() % 16;
          if (choice == 0)
            models[i].remove(*store);
          else
            choice < 8 ? models[i].put(*store) : models[i].get(*store);
          if (models[i].n_under_way() > 8) models[i].settle();
        }
        models[i].settle();
        --n_busy;
      });
    }
    for (std::uint64_t step = 1; n_busy > 0; ++step) store->commit(step).wait().value();
    for (auto& thread : threads) thread.join();
    store->commit(1000000).wait().value();
    for (auto& model : models) model.get_all(*store);
  }
  const auto store = TensorStore::open(options).value();
  EXPECT_EQ(store->committed_step(), 1000000u);
  for (auto& model : models) model.get_all(*store);
}

/// Syncs are slow on a drive; gets run meanwhile, and neither waits for a place in the engine that the other has.
TEST(StoreModel, GetsGoOnWhileManyFoldersAreSynced) {
  constexpr std::size_t kNFolders = 8;
  constexpr std::uint64_t kBytes = kNFolders * kBlockBytes;
  std::deque<ScratchFolder> folders(kNFolders);
  Budget budget(Tier::nvme, 8 * kMiB);
  TensorStoreOptions options;
  for (const auto& folder : folders) options.folders.push_back(folder.path());
  options.budget = &budget;
  options.durability = Durability::commit;
  options.block_bytes = kBlockBytes;
  options.depth = 1;
  const auto store = TensorStore::open(options).value();
  const TestBuffer out(kBytes, 1), in(kBytes);
  for (std::uint64_t step = 1; step <= 5; ++step) {
    store->put(1, out.view()).wait().value();
    const Event committed = store->commit(step);
    do store->get(1, in.view()).wait().value();
    while (!committed.ready());
    committed.wait().value();
  }
  EXPECT_TRUE(in.holds(1));
}

}  // namespace
}  // namespace castor::test
