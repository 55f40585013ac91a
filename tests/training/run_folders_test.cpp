// SPDX-License-Identifier: Apache-2.0
#include <castor/training/run_folders.h>

#include <gtest/gtest.h>

#include <fstream>

#include "../support/scratch_folder.h"
#include "plain_strategy.h"

namespace castor {
namespace {

using test::PlainStrategy;

const std::vector<std::uint64_t> kFew = {5, 3, 2};

/// A strategy that keeps its own run, in the folders that the test gives it.
class CommittingStrategy final : public PlainStrategy, private CommitCalls {
 public:
  CommittingStrategy() : PlainStrategy(5, kFew) {}
  CommitCalls& commits() override { return *this; }

  std::optional<CommittedRun> run;
  bool restored = false;

 private:
  Result<void> commit_begin(const castor_commit_args& args) override {
    run = CommittedRun{args.step, std::string(static_cast<const char*>(args.note), args.n_note_bytes)};
    return {};
  }
  Result<castor_commit_result> commit_wait() override {
    return castor_commit_result{sizeof(castor_commit_result), 10, 20};
  }
  Result<castor_committed_run> last_commit() override {
    if (!run) return blank<castor_committed_run>();
    return castor_committed_run{sizeof(castor_committed_run), 1, run->step, run->note.data(), run->note.size()};
  }
  Result<void> restore() override { return restored = true, Result<void>(); }
};

class RunFoldersTest : public ::testing::Test {
 protected:
  std::filesystem::path folder(const std::string& name) const { return std::filesystem::path(root_.path()) / name; }
  /// Saves a run of `n_steps` in `folder`.
  void save_run(const std::filesystem::path& folder, std::int64_t n_steps) {
    RunFolders folders = RunFolders::open({.save_in = {folder}}).value();
    folders.save(trained_, model_, strategy_, {.n_steps = n_steps}).value();
  }
  static std::string refusal(const Result<RunFolders>& opened) {
    EXPECT_FALSE(opened.ok());
    if (opened.ok()) return "";
    EXPECT_EQ(opened.error().kind, ErrorKind::usage);
    return opened.error().message;
  }

  const Trained trained_{"m"};
  test::ScratchFolder root_{test::ScratchFolder::quick_parent()};
  test::FakeModelHost model_{test::params(kFew), {{"u", {0, 1, 2}}}};
  PlainStrategy strategy_{5, kFew};
};

TEST_F(RunFoldersTest, ARunGoesOnWhereItIsSaved) {
  save_run(folder("a"), 2);
  {
    RunFolders folders = RunFolders::open({.resume_from = {folder("a")}, .save_in = {folder("a")}}).value();
    EXPECT_EQ(folders.load(trained_, model_, strategy_)->n_steps, 2);
    EXPECT_TRUE(folders.save(trained_, model_, strategy_, {.n_steps = 3}).ok());
  }
  RunFolders folders = RunFolders::open({.resume_from = {folder("a")}}).value();
  EXPECT_EQ(folders.load(trained_, model_, strategy_)->n_steps, 3);
}

TEST_F(RunFoldersTest, ARunMayBeSavedLaterWhereItCameFrom) {
  save_run(folder("a"), 2);
  RunFolders folders;
  ASSERT_TRUE(folders.resume_from({folder("a")}).ok());
  EXPECT_FALSE(folders.saves());
  EXPECT_EQ(folders.load(trained_, model_, strategy_)->n_steps, 2);
  ASSERT_TRUE(folders.save_in({folder("a")}).ok());
  EXPECT_TRUE(folders.save(trained_, model_, strategy_, {.n_steps = 4}).ok());
}

TEST_F(RunFoldersTest, ARunIsNotSavedOverAnother) {
  save_run(folder("a"), 2);
  save_run(folder("b"), 7);
  EXPECT_EQ(
      refusal(RunFolders::open({.save_in = {folder("a")}})),
      folder("a").string() + " holds a run of 2 steps already; continue it with `resume_from`, or name another folder");
  EXPECT_EQ(
      refusal(RunFolders::open({.resume_from = {folder("a")}, .save_in = {folder("b")}})),
      folder("b").string() + " holds a run of 7 steps already; continue it with `resume_from`, or name another folder");
  EXPECT_FALSE(check_unused({folder("a")}).ok());
  EXPECT_TRUE(check_unused({folder("c")}).ok());
}

TEST_F(RunFoldersTest, ThereMustBeSomethingToResume) {
  EXPECT_EQ(refusal(RunFolders::open({.resume_from = {folder("none")}})),
            "`resume_from` " + folder("none").string() + ": there is no such folder");
  std::filesystem::create_directory(folder("empty"));
  const Error error = RunFolders::open({.resume_from = {folder("empty")}}).error();
  EXPECT_EQ(error.option, "resume_from");
  EXPECT_EQ(error.message, "`resume_from` " + folder("empty").string() + ": there is no checkpoint in that folder");
}

TEST_F(RunFoldersTest, ARunWithoutAFolderIsNotSaved) {
  const Error error = RunFolders().save(trained_, model_, strategy_, {}).error();
  EXPECT_EQ(error.message, "the run has no folder to be saved in; name one");
  EXPECT_EQ(error.option, "save_in");
}

TEST_F(RunFoldersTest, CommitsAreTheStrategysOwn) {
  CommittingStrategy strategy;
  std::filesystem::create_directory(folder("nvme"));
  RunFolders folders = RunFolders::open({.save_in = {folder("nvme")}, .commits = true}).value();
  EXPECT_TRUE(folders.check(strategy).ok());
  const SavedBytes saved = folders.save(trained_, model_, strategy, {.n_steps = 3}).value();
  EXPECT_EQ(saved.written_bytes, 10u);
  EXPECT_EQ(saved.referenced_bytes, 20u);
  const RunFolders::Settings same = {.resume_from = {folder("nvme")}, .save_in = {folder("nvme")}, .commits = true};
  const auto incomplete = RunFolders::open(same);
  ASSERT_FALSE(incomplete.ok()) << "a copy without its manifest";
  EXPECT_NE(incomplete.error().message.find("there is no checkpoint"), std::string::npos);
  std::ofstream(folder("nvme") / "castor.manifest") << "the strategy's";
  RunFolders rest = RunFolders::open(same).value();
  EXPECT_EQ(rest.load(trained_, model_, strategy)->n_steps, 3);
  EXPECT_TRUE(strategy.restored);
}

TEST_F(RunFoldersTest, ARunThatIsSavedElsewhereCommitsAgainAfter) {
  CommittingStrategy strategy;
  std::filesystem::create_directory(folder("nvme"));
  RunFolders folders = RunFolders::open({.save_in = {folder("nvme")}, .commits = true}).value();
  EXPECT_TRUE(folders.commits_in(folder("a") / ".." / "nvme"));
  EXPECT_FALSE(folders.commits_in(folder("a")));
  ASSERT_TRUE(folders.save_in({folder("a")}).ok());
  EXPECT_EQ(folders.target(), std::vector{folder("a")});
  folders.close();
  EXPECT_EQ(folders.target(), std::vector{folder("nvme")});
  EXPECT_EQ(folders.save(trained_, model_, strategy, {.n_steps = 3})->written_bytes, 10u);
  ASSERT_TRUE(folders.save_in({folder("a")}).ok());
  ASSERT_TRUE(folders.save_in({folder("nvme")}).ok()) << "without a close between";
  EXPECT_EQ(folders.save(trained_, model_, strategy, {.n_steps = 4})->referenced_bytes, 20u);
}

TEST_F(RunFoldersTest, AStrategyThatCannotSaveIsFoundEarly) {
  RunFolders folders = RunFolders::open({.save_in = {folder("nvme")}, .commits = true}).value();
  EXPECT_EQ(folders.check(strategy_).error().kind, ErrorKind::usage);
}

}  // namespace
}  // namespace castor
