// SPDX-License-Identifier: Apache-2.0
// A drive that hangs while the engine commits its folders, and a user who stops the run meanwhile.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <castor/memory/bytes.h>

#include "drives/faulty_engine.h"
#include "fake_model_host.h"
#include "scratch_folder.h"
#include "small_training.h"
#include "watchdog.h"

namespace castor {
namespace {

using test::Fault;
using test::FaultyEngine;
using test::SmallTraining;
using test::Watchdog;

/// A training whose folder is its checkpoint: two steps, with a commit after each.
class CommittingRun {
 public:
  CommittingRun() {
    options_.nvme_folders = {folder_.path()};
    options_.durability = Durability::commit;
    options_.host_budget_bytes = 160 * kKiB;
    options_.device_budget_bytes = 20 * kKiB;
  }

  /// Waits for the drive end after a time, which passes as long as the drive keeps a request.
  void limit_waits() { options_.io_timeout = std::chrono::seconds(20); }

  /// Opens the folder through a drive that keeps to `drive`.
  void open(std::shared_ptr<FaultyEngine::Script> drive) {
    engine_.reset();
    Machine machine = this_machine();
    machine.now_ns = [drive, ns = std::make_shared<std::atomic<std::uint64_t>>(1)] {
      return *ns += drive->holds() ? 1'000'000'000 : 1;  // a slow machine alone is no drive that hangs
    };
    machine.open_store = [drive](const TensorStoreOptions& store) -> Result<std::unique_ptr<TensorStore>> {
      CASTOR_ASSIGN(auto engine, make_io_engine(EngineChoice::threads));
      return TensorStore::open(store, std::make_unique<FaultyEngine>(std::move(engine), drive));
    };
    engine_ = Engine::make(*host_, options_, machine).value();
    engine_->attach().value();
  }
  void close() { engine_.reset(); }
  void train_step(std::uint32_t step) { training_.run(*engine_, *host_, step, step + 1).value(); }
  Result<castor_commit_result> commit(std::uint64_t step) { return engine_->commit(step, note_of(step)); }

  static std::string note_of(std::uint64_t step) { return "after step " + std::to_string(step); }

  /// The folder holds the whole run after one of `steps`.
  void expect_one_of(const std::vector<std::uint64_t>& steps) {
    open(std::make_shared<FaultyEngine::Script>());
    const auto last = engine_->committed().value();
    ASSERT_TRUE(last);
    EXPECT_EQ(std::count(steps.begin(), steps.end(), last->step), 1) << last->step;
    EXPECT_EQ(last->note, note_of(last->step));
    engine_->commits().restore().value();
    EXPECT_EQ(training_.masters(*engine_).value(), training_.expected(static_cast<std::uint32_t>(last->step)));
  }

  test::FakeModelHost& host() { return *host_; }

 private:
  const test::ScratchFolder folder_{test::ScratchFolder::quick_parent()};
  const SmallTraining training_;
  EngineOptions options_ = training_.options();
  const std::unique_ptr<test::FakeModelHost> host_ = training_.make_host();
  std::unique_ptr<Engine> engine_;
};

/// For n = 1, 2, 3 …: holds the n-th request of the second commit until that commit has given up with an error of
/// `kind`, because the user stops the run (interrupted) or its time is over (io), then runs `after` with the engine
/// still there. Returns how many commits gave up.
int for_every_hang(ErrorKind kind, const std::function<void(CommittingRun&)>& after) {
  int n_stopped = 0;
  for (std::uint64_t nth = 1; nth < 200 && !::testing::Test::HasFailure(); ++nth) {
    SCOPED_TRACE("request " + std::to_string(nth));
    CommittingRun run;
    if (kind == ErrorKind::io) run.limit_waits();
    const auto drive = std::make_shared<FaultyEngine::Script>();
    run.open(drive);
    run.train_step(0);
    run.commit(1).value();
    run.train_step(1);
    drive->set(drive->n_requests() + nth, Fault::hold());
    if (kind == ErrorKind::interrupted) run.host().set_interrupted([drive] { return drive->holds(); });
    Result<castor_commit_result> committed = castor_commit_result{};
    {
      const Watchdog watchdog([drive] { drive->release(); });
      committed = run.commit(2);
    }
    const bool held = drive->holds();
    EXPECT_NE(committed.ok(), held);
    if (!committed.ok()) {
      EXPECT_EQ(committed.error().kind, kind) << committed.error().message;
    }
    drive->release();
    after(run);
    if (!held) break;
    ++n_stopped;
  }
  return n_stopped;
}

TEST(EngineCommits, AreWholeWhereTheUserStopsWhileTheDriveHangs) {
  const int n_stopped = for_every_hang(ErrorKind::interrupted, [](CommittingRun& run) { run.expect_one_of({1, 2}); });
  EXPECT_GT(n_stopped, 3);
}

TEST(EngineCommits, AreWholeWhereTheDriveHangsLongerThanTheTimeout) {
  const int n_stopped = for_every_hang(ErrorKind::io, [](CommittingRun& run) { run.expect_one_of({1, 2}); });
  EXPECT_GT(n_stopped, 3);
}

TEST(EngineCommits, AreMadeOnceMoreWhereTheDriveAnswersAfterAll) {
  const int n_stopped = for_every_hang(ErrorKind::interrupted, [](CommittingRun& run) {
    run.commit(2).value();
    run.expect_one_of({2});
  });
  EXPECT_GT(n_stopped, 3);
}

}  // namespace
}  // namespace castor
