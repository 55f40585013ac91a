// SPDX-License-Identifier: Apache-2.0
// kill -9 of a process that puts and commits, at moments spread over all its work; after each the store is opened and
// every byte checked. CASTOR_N_KILLS is the number of kills (200).
//
// A kill keeps the page cache: this shows that opening handles every state between two system calls. The torn-write
// model covers the states after a power cut.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <castor/io/tensor_store.h>

#include "kill_values.h"
#include "../../support/scratch_folder.h"
#include "value_buffer.h"

namespace castor::test {
namespace {

const std::string kKillChild = CASTOR_STORE_KILL_CHILD;  // its path, from Meson

int n_kills() {
  const char* text = std::getenv("CASTOR_N_KILLS");
  return text ? std::atoi(text) : 200;
}

/// The work of the child after the message `mark`.
const char* text(KillMark mark) {
  switch (mark) {
    case KillMark::opened:
    case KillMark::committed: return "between steps";
    case KillMark::puts: return "putting";
    case KillMark::commit: return "syncing";
    case KillMark::manifest: return "writing the manifest";
    case KillMark::rename: return "naming it";
  }
  return "?";
}

/// A child that runs until it is killed.
class Victim {
 public:
  explicit Victim(const std::vector<std::string>& arguments) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int answer = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    marks_ = ends[0];
    if (answer != 0) throw std::runtime_error("cannot run " + arguments[0]);
  }
  ~Victim() {
    kill();
    ::close(marks_);
  }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  struct Mark {
    KillMark what;
    std::uint64_t step;
  };
  /// Its next message; nothing when it is dead.
  std::optional<Mark> next() const {
    char told[1 + sizeof(std::uint64_t)];
    if (::read(marks_, told, sizeof told) != sizeof told) return std::nullopt;
    Mark mark{static_cast<KillMark>(told[0]), 0};
    std::memcpy(&mark.step, told + 1, sizeof mark.step);
    return mark;
  }
  /// Whether it is still alive.
  bool kill() {
    if (pid_ <= 0) return false;
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  pid_t pid_ = 0;
  int marks_ = -1;
};

class StoreKill : public ::testing::Test {
 protected:
  /// The moment of a kill: `delay` after the n-th message `mark`.
  struct Moment {
    std::optional<KillMark> mark;  ///< nothing: after its start
    std::uint64_t nth;
    std::chrono::microseconds delay;
  };

  /// One in eight is during the start; else shortly after any of the marks, mostly very shortly.
  Moment random_moment() {
    constexpr KillMark kMarks[] = {KillMark::opened,   KillMark::puts,   KillMark::commit,
                                   KillMark::manifest, KillMark::rename, KillMark::committed};
    if (random_() % 8 == 0) return {std::nullopt, 0, std::chrono::microseconds(random_() % 12000)};
    const double magnitude = std::uniform_real_distribution<double>(0, 11)(random_);
    const std::chrono::microseconds delay(static_cast<int>(std::exp2(magnitude)) - 1);
    const KillMark mark = kMarks[random_() % std::size(kMarks)];
    return {mark, mark == KillMark::opened ? 1 : 1 + random_() % 3, delay};
  }

  /// Lets the child continue from `step` and kills it; returns the last step that it acknowledged.
  std::uint64_t run_and_kill(const std::vector<std::string>& folders, std::uint64_t step) {
    const Moment moment = random_moment();
    Victim victim({kKillChild, random_() % 2 == 0 ? "best" : "threads", folders[0], folders[1]});
    std::string last = "opening";
    const auto note = [&](const Victim::Mark& mark) {
      last = text(mark.what);
      if (mark.what == KillMark::committed) step = mark.step;
    };
    std::uint64_t n_seen = 0;
    while (moment.mark && n_seen < moment.nth) {
      const auto mark = victim.next();
      if (!mark) break;
      note(*mark);
      n_seen += mark->what == *moment.mark ? 1 : 0;
    }
    std::this_thread::sleep_for(moment.delay);  // the random moment itself
    EXPECT_TRUE(victim.kill()) << "the child ended by itself while " << last;
    while (const auto mark = victim.next()) note(*mark);
    ++n_killed_while_[last];
    return step;
  }

  /// The step that the store holds, after checking every byte of it.
  std::uint64_t check(const std::vector<std::string>& folders) {
    TensorStoreOptions options;
    options.folders = folders;
    options.durability = Durability::commit;
    options.engine = EngineChoice::threads;
    const auto store = TensorStore::open(options).value();
    const auto step = store->committed_step().value_or(0);
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = 0; key < kKillKeys && step > 0; ++key)
      if (kill_value_bytes(key, step)) keys.push_back(key);
    EXPECT_EQ(store->keys(), keys);
    for (const auto key : keys) {
      const ValueBuffer in(kill_value_bytes(key, step).value_or(0));
      const auto got = store->get(key, in.view()).wait();
      EXPECT_TRUE(got.ok()) << got.error().message;
      EXPECT_TRUE(in.holds(kill_seed(key, step_of_value(key, step)))) << "key " << key << " of step " << step;
    }
    return step;
  }

  std::mt19937 random_;
  std::map<std::string, int> n_killed_while_;
};

TEST_F(StoreKill, OpeningFindsTheLastStepWholeOrTheOneUnderWay) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_.seed(seed);
  constexpr int kKillsPerStore = 20, kOneInThisManyOnADrive = 5;
  int n_under_way = 0;
  for (int n_left = n_kills(), n_stores = 1; n_left > 0 && !HasFailure(); n_left -= kKillsPerStore, ++n_stores) {
    const bool on_a_drive = n_stores % kOneInThisManyOnADrive == 0;
    const ScratchFolder first(on_a_drive ? ScratchFolder::default_parent() : ScratchFolder::quick_parent());
    const ScratchFolder second(ScratchFolder::quick_parent());
    std::uint64_t step = 0;
    for (int i = 0; i < std::min(kKillsPerStore, n_left) && !HasFailure(); ++i) {
      const auto acknowledged = run_and_kill({first.path(), second.path()}, step);
      step = check({first.path(), second.path()});
      EXPECT_GE(step, acknowledged);
      EXPECT_LE(step, acknowledged + 1);
      n_under_way += step > acknowledged ? 1 : 0;
    }
  }
  std::printf("seed %u; killed while", seed);
  for (const auto& [mark, n] : n_killed_while_) std::printf(" %s: %d;", mark.c_str(), n);
  std::printf(" found the commit under way: %d\n", n_under_way);
}

}  // namespace
}  // namespace castor::test
