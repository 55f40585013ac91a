// SPDX-License-Identifier: Apache-2.0
// Trainings whose checkpoint is in the folders of nvme (durability=commit), stopped and continued, beside the plugin in
// plain C, which never stops.
#include "scratch_folder.h"
#include "scripted_training.h"
#include "seeds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>

namespace castor {
namespace {

using test::ScriptedTraining;
using test::TrainingRecord;

PluginOptions kept_in(const std::string& folder, PluginOptions options = {}) {
  options["nvme"] = folder;
  options["durability"] = "commit";
  return options;
}

/// Chunks, shares and formats of any kind that fit.
PluginOptions random_options(std::mt19937& random) {
  return {{"chunk_bytes", std::to_string(512 + random() % 8192)},
          {"nvme_offload_fraction", std::to_string(random() % 3 * 0.5)},
          {"placement_policy", random() % 2 ? "cpu" : "auto"},
          {"overlap_updates", random() % 2 ? "true" : "false"},
          {"split_master", random() % 2 ? "true" : "false"}};
}

/// Trains the steps before `step` and commits them.
castor_commit_result train_to(const ScriptedTraining& training, std::size_t step, const PluginOptions& options) {
  castor_commit_result result{};
  ScriptedTraining::Stretch stretch;
  stretch.end = step;
  stretch.after = [&](Strategy& strategy) -> Result<void> {
    CASTOR_ASSIGN(result, strategy.commit(step, "after " + std::to_string(step)));
    return {};
  };
  training.run(GEMINI, options, stretch).value();
  return result;
}

ScriptedTraining::Stretch rest_from(std::size_t step) {
  ScriptedTraining::Stretch stretch;
  stretch.first = step;
  stretch.before = [step](Strategy& strategy) -> Result<void> {
    CASTOR_ASSIGN(const auto run, strategy.committed());
    EXPECT_TRUE(run && run->step == step && run->note == "after " + std::to_string(step));
    return strategy.commits().restore();
  };
  return stretch;
}

/// The steps and the end are those of a training that never stopped.
void expect_end_of(const TrainingRecord& rest, const TrainingRecord& whole) {
  const auto is_end_of = [](const auto& part, const auto& all) {
    return part.size() <= all.size() && std::equal(part.rbegin(), part.rend(), all.rbegin());
  };
  EXPECT_TRUE(is_end_of(rest.weights_seen, whole.weights_seen)) << "weights at some use";
  EXPECT_TRUE(is_end_of(rest.grad_norms, whole.grad_norms));
  EXPECT_EQ(rest.masters, whole.masters);
}

TEST(GeminiCommits, ARunGoesOnWithTheSameBitsOnTheSameOptionsOrOthers) {
  for (std::uint32_t seed = 0; seed < test::n_seeds(24); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
    std::mt19937 random(seed);
    const ScriptedTraining training(seed, {.announces = seed % 2 == 0});
    const TrainingRecord whole = training.run(MINIMAL_C, {}).value();
    const std::size_t step = 1 + random() % 5;
    const PluginOptions options = kept_in(folder.path(), random_options(random));
    train_to(training, step, options);
    const PluginOptions others = seed % 3 == 0 ? options : kept_in(folder.path(), random_options(random));
    expect_end_of(training.run(GEMINI, others, rest_from(step)).value(), whole);
    expect_end_of(training.run(GEMINI, options, rest_from(step)).value(), whole);  // it has no new commit
  }
}

TEST(GeminiCommits, StatesOnNvmeAreReferencedAndNotWrittenAgain) {
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  const ScriptedTraining training(1);
  const PluginOptions below = kept_in(folder.path(), {{"nvme_offload_fraction", "1"}, {"overlap_updates", "false"}});
  const auto result = train_to(training, 3, below);
  EXPECT_GT(result.referenced_bytes, 2 * result.written_bytes) << "10 or 12 bytes of states, 2 or 4 of weights";
  EXPECT_GT(result.written_bytes, 0u);
}

TEST(GeminiCommits, InTheSameChunksNothingIsWrittenToGoOn) {
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  const ScriptedTraining training(1);
  const PluginOptions below = kept_in(folder.path(), {{"nvme_offload_fraction", "1"}});
  train_to(training, 3, below);
  ScriptedTraining::Stretch rest = rest_from(3);
  rest.end = 3;
  const TrainingRecord record = training.run(GEMINI, below, rest).value();
  EXPECT_EQ(record.stats.nvme_write_bytes, 0u) << "no first values either";
  EXPECT_GT(record.stats.nvme_read_bytes, 0u) << "the masters are read from where they lie";
}

TEST(GeminiCommits, WhoDoesNotGoOnGetsTheFirstValues) {
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  const ScriptedTraining training(1);
  train_to(training, 3, kept_in(folder.path()));
  const TrainingRecord whole = training.run(MINIMAL_C, {}).value();
  EXPECT_EQ(training.run(GEMINI, kept_in(folder.path())).value().masters, whole.masters);
  ScriptedTraining::Stretch nothing;
  nothing.end = 0;
  EXPECT_EQ(training.run(GEMINI, kept_in(folder.path()), nothing).value().masters,
            training.run(MINIMAL_C, {}, nothing).value().masters);
}

TEST(GeminiCommits, WithoutTheOptionOrTheFolderItIsRefused) {
  const ScriptedTraining training(1);
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  std::optional<Error> refused;
  ScriptedTraining::Stretch stretch;
  stretch.end = 1;
  stretch.after = [&refused](Strategy& strategy) -> Result<void> {
    refused = strategy.commit(1, "note").error();
    return {};
  };
  training.run(GEMINI, {{"nvme", folder.path()}}, stretch).value();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, ErrorKind::usage);
  EXPECT_EQ(refused->message,
            "gemini: with durability=scratch the states on NVMe cannot be committed; set durability=commit");
  training.run(MINIMAL_C, {}, stretch).value();
  EXPECT_EQ(refused->message, "plugin minimal_c cannot commit its states");
  EXPECT_EQ(training.run(GEMINI, {{"durability", "commit"}}).error().kind, ErrorKind::usage);
}

TEST(GeminiCommits, TwoRunsInOneFolderAreRefused) {
  const ScriptedTraining training(1);
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  ScriptedTraining::Stretch stretch;
  stretch.before = [&](Strategy&) -> Result<void> {
    EXPECT_EQ(training.run(GEMINI, kept_in(folder.path())).error().kind, ErrorKind::io);
    return {};
  };
  training.run(GEMINI, kept_in(folder.path()), stretch).value();
}

TEST(GeminiCommits, AFolderWithARunIsNotReplaced) {
  const ScriptedTraining training(1);
  const test::ScratchFolder folder(test::ScratchFolder::quick_parent());
  train_to(training, 2, kept_in(folder.path()));
  ScriptedTraining::Stretch stretch;
  stretch.after = [](Strategy& strategy) -> Result<void> {
    EXPECT_EQ(strategy.commit(6, "").error().kind, ErrorKind::usage);
    return {};
  };
  training.run(GEMINI, kept_in(folder.path()), stretch).value();
  const TrainingRecord whole = training.run(MINIMAL_C, {}).value();
  expect_end_of(training.run(GEMINI, kept_in(folder.path()), rest_from(2)).value(), whole);
}

}  // namespace
}  // namespace castor
