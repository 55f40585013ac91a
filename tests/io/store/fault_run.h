// SPDX-License-Identifier: Apache-2.0
// One run of a durable store whose n-th call to the kernel fails, and the outcomes that the contract allows.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/io/direct_file.h>
#include <castor/io/tensor_store.h>

#include "files/folder_ops.h"
#include "../../support/scratch_folder.h"
#include "value_buffer.h"

namespace castor::test {

/// The parts a store is opened with, and the controls of a test while it lives.
struct FaultyParts {
  std::unique_ptr<IoEngine> engine;                    ///< null: a healthy one
  std::unique_ptr<FolderOps> folder_ops;               ///< the same
  std::function<bool()> reached;                       ///< whether the n-th call was made
  std::function<void()> heal = [] {};                  ///< no more faults
  std::function<bool()> holds = [] { return false; };  ///< whether a call waits for release
  std::function<void()> release = [] {};
};

struct FaultCase {
  enum class Allowed {
    nothing,  ///< no caller sees an error
    errors,   ///< some call reports an error
    either,   ///< depends on the call that is hit
  };
  std::string name;
  Allowed allowed;
  /// `sector_bytes`: short transfers end at a multiple of it.
  std::function<FaultyParts(std::uint64_t nth, std::uint64_t sector_bytes)> make;
  bool damages = false;       ///< bytes on the drive may be wrong although no call reported an error
  bool leaves_doubt = false;  ///< a commit that failed may stand all the same
  std::chrono::milliseconds timeout{0};

  friend void PrintTo(const FaultCase& fault, std::ostream* out) { *out << fault.name; }
};

/// Puts, commits and gets several values in two steps, checks every outcome, and opens the store again.
///
/// Checks for every run: a get gives the right bytes or an error of kind io that names key and folder; each operation
/// that failed reported an error; the store that is opened again holds the last acknowledged commit, every byte of it
/// (where the sync of a folder failed, it may hold the commit that this ended). Where the drive damaged a block without
/// an error, that key's get is an error, and no other's.
class FaultRun {
 public:
  FaultRun(const FaultCase& fault, std::uint64_t nth) : fault_(fault), nth_(nth) {}

  void run() {
    SCOPED_TRACE(fault_.name + ", call " + std::to_string(nth_));
    made_ = fault_.make(nth_, sector_bytes());
    if (const auto store = open()) {
      two_steps(*store);
      reached_ = made_.reached();
      if (reached_ && n_errors_ > 0) go_on(*store);
    }
    EXPECT_TRUE(fault_.allowed != FaultCase::Allowed::nothing || n_errors_ == 0);
    EXPECT_TRUE(fault_.allowed != FaultCase::Allowed::errors || !reached_ || n_errors_ > 0);
    EXPECT_TRUE(may_time_out() || reached_ || n_errors_ == 0);
    check_reopened();
  }

  bool reached() const { return reached_; }
  int n_errors() const { return n_errors_; }

 private:
  struct Version {
    std::uint64_t n_bytes;
    std::uint64_t seed;
  };
  struct Move {
    std::uint64_t key;
    Event done;
    std::unique_ptr<ValueBuffer> bytes;
    std::optional<Version> want;
  };
  using Values = std::map<std::uint64_t, std::optional<Version>>;  // nothing: the put failed
  struct NewValue {
    std::uint64_t key;
    std::uint64_t n_bytes;
  };

  TensorStoreOptions options() {
    TensorStoreOptions options;
    options.folders = {first_.path(), second_.path()};
    options.durability = Durability::commit;
    options.block_bytes = 4096;
    options.timeout = fault_.timeout;
    options.budget = &budget_;
    return options;
  }
  /// The smallest transfer of the drive: 512 bytes where it supports that.
  std::uint64_t sector_bytes() const {
    const auto file = DirectFile::create_unnamed(first_.path()).value();
    const TestBuffer page(4096, 0);
    const bool small =
        pwrite(file.fd(), page.data(), 4096, 0) == 4096 && pread(file.fd(), page.data(), 512, 512) == 512;
    return small ? 512 : file.offset_align_bytes();
  }

  std::unique_ptr<TensorStore> open() {
    if (!made_.engine) made_.engine = make_io_engine(EngineChoice::threads).value();
    if (!made_.folder_ops) made_.folder_ops = std::make_unique<SystemFolderOps>();
    auto opened = TensorStore::open(options(), std::move(made_.engine), std::move(made_.folder_ops));
    if (opened.ok()) return std::move(opened).value();
    reached_ = true;
    check_message(opened.error(), "");
    return nullptr;
  }

  void two_steps(TensorStore& store) {
    put(store, 0, {{1, kLong}});
    put(store, 1, {{1, kLong}, {2, 17}, {3, 8192}, {4, 5001}});
    commit(store, 1);
    get_all(store);
    put(store, 2, {{1, kLong}, {2, 6000}, {3, 8192}, {5, 100}});
    remove(store, 4);
    commit(store, 2);
    get_all(store);
  }

  /// The store continues, unless the contents of the drive are unknown; then it reports that and keeps its values.
  void go_on(TensorStore& store) {
    made_.heal();
    const int n_errors = n_errors_;
    remove(store, 5);
    put(store, 3, {{1, kLong}, {2, 17}, {3, 8192}, {4, 5001}, {5, 100}});
    commit(store, 3);
    EXPECT_TRUE(may_time_out() || doubtful_ || n_errors_ == n_errors);
    n_errors_ = n_errors;
  }

  /// On a busy machine healthy requests may time out too.
  bool may_time_out() const { return fault_.timeout.count() > 0; }

  void remove(TensorStore& store, std::uint64_t key) {
    store.remove(key);
    now_.erase(key);
  }

  static bool all_put(const Values& values) {
    return std::all_of(values.begin(), values.end(), [](const auto& entry) { return entry.second.has_value(); });
  }

  void put(TensorStore& store, std::uint64_t step, const std::vector<NewValue>& values) {
    std::vector<Move> moves;
    for (const auto& [key, n_bytes] : values) {
      const Version version{n_bytes, key * 100 + step};
      auto bytes = std::make_unique<ValueBuffer>(n_bytes, shift(key));
      bytes->fill(version.seed);
      const Event done = store.put(key, bytes->view());
      moves.push_back({key, done, std::move(bytes), version});
    }
    wait_for_all(moves);
    for (const auto& move : moves) now_[move.key] = check(move.done, move.key) ? move.want : std::nullopt;
  }

  void get_all(TensorStore& store) {
    std::vector<Move> moves = start_gets(store, now_);
    wait_for_all(moves);
    for (const auto& move : moves) check_get(move);
  }

  static std::vector<Move> start_gets(TensorStore& store, const Values& values) {
    std::vector<Move> moves;
    for (const auto& [key, version] : values) {
      auto bytes = std::make_unique<ValueBuffer>(version ? version->n_bytes : 10, shift(key));
      const Event done = store.get(key, bytes->view());
      moves.push_back({key, done, std::move(bytes), version});
    }
    return moves;
  }

  /// Whether the get gave the right bytes; else it must have given an error.
  bool check_get(const Move& move) {
    if (!check(move.done, move.key)) return false;
    EXPECT_TRUE(move.want.has_value()) << "key " << move.key << " came back though its put had failed";
    EXPECT_TRUE(!move.want || move.bytes->holds(move.want->seed)) << "key " << move.key << " came back wrong";
    return true;
  }

  void commit(TensorStore& store, std::uint64_t step) {
    attempts_[step] = now_;
    const Event done = store.commit(step);
    while (!done.ready() && !made_.holds()) std::this_thread::yield();
    if (made_.holds()) {
      auto moves = start_gets(store, now_);
      for (const auto& move : moves) check_get(move);  // a slow sync does not delay gets
      EXPECT_FALSE(done.ready());
      made_.release();
    }
    const auto outcome = done.wait();
    if (outcome.ok()) {
      EXPECT_TRUE(all_put(now_)) << "a put had failed";
      committed_ = step;
      doubtful_.reset();
    } else {
      if (all_put(now_)) doubtful_ = step;
      check_message(outcome.error(), "step " + std::to_string(step) + " is not committed: ");
    }
    EXPECT_EQ(store.committed_step(), committed_);
  }

  /// Waits for all operations but the held one, which end by themselves.
  void wait_for_all(const std::vector<Move>& moves) {
    const auto n_pending = [&] {
      return std::count_if(moves.begin(), moves.end(), [](const Move& move) { return !move.done.ready(); });
    };
    while (n_pending() > (made_.holds() ? 1 : 0)) std::this_thread::yield();
    if (made_.holds()) {
      EXPECT_EQ(n_pending(), 1);
      made_.release();
    }
    for (const auto& move : moves) (void)move.done.wait();
  }

  bool check(const Event& done, std::uint64_t key) {
    const auto outcome = done.wait();
    if (outcome.ok()) return true;
    const bool poisoned = outcome.error().message.find("; open the store again") != std::string::npos;
    check_message(outcome.error(), poisoned ? "" : "key " + std::to_string(key) + ": ");
    return false;
  }

  void check_message(const Error& error, const std::string& start) {
    ++n_errors_;
    EXPECT_EQ(error.kind, ErrorKind::io) << error.message;
    EXPECT_EQ(error.message.find(start), 0u) << error.message;
    const bool names_folder = error.message.find(first_.path()) != std::string::npos ||
                              error.message.find(second_.path()) != std::string::npos;
    EXPECT_TRUE(names_folder) << error.message;
  }

  void check_reopened() {
    auto healthy = options();
    healthy.timeout = {};
    healthy.engine = EngineChoice::threads;
    const auto store = TensorStore::open(healthy).value();
    const auto step = store->committed_step();
    ASSERT_TRUE(step == committed_ || (fault_.leaves_doubt && step && step == doubtful_)) << step.value_or(0);
    const Values want = step ? attempts_[*step] : Values();
    std::vector<std::uint64_t> keys;
    for (const auto& [key, version] : want) keys.push_back(key);
    EXPECT_EQ(store->keys(), keys);
    int n_damaged = 0;
    for (const auto& move : start_gets(*store, want)) n_damaged += check_get(move) ? 0 : 1;
    EXPECT_LE(n_damaged, fault_.damages ? 1 : 0);
  }

  static std::uint64_t shift(std::uint64_t key) { return key == 4 ? 3 : 0; }
  static constexpr std::uint64_t kLong = 3 * 4096 + 100;

  const FaultCase& fault_;
  const std::uint64_t nth_;
  const ScratchFolder first_{ScratchFolder::quick_parent()}, second_{ScratchFolder::quick_parent()};
  Budget budget_{Tier::nvme, kMiB};  // keeps the store from setting much room aside ahead
  FaultyParts made_;
  Values now_;
  std::map<std::uint64_t, Values> attempts_;  // the values when each commit was requested
  std::optional<std::uint64_t> committed_;
  std::optional<std::uint64_t> doubtful_;  // a later commit with all values, which failed
  bool reached_ = false;
  int n_errors_ = 0;
};

}  // namespace castor::test
