// SPDX-License-Identifier: Apache-2.0
// The gemini plugin against the plugin in plain C, which keeps everything resident and shares no line with it: same
// weights at every use, same masters, same norms, to the last bit, whatever the budgets.
#include "scripted_training.h"
#include "seeds.h"

#include <castor/memory/bytes.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

namespace castor {
namespace {

using test::ScriptedTraining;
using test::TrainingRecord;

const std::uint32_t kSeeds = test::n_seeds(40);

/// A folder for the NVMe tier that is removed with the test.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/castor-gemini-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * 4) != 0) return false;
  return true;
}

void expect_same(const TrainingRecord& found, const TrainingRecord& reference) {
  EXPECT_TRUE(same_bits(found.weights_seen, reference.weights_seen)) << "weights at some use";
  EXPECT_TRUE(same_bits(found.masters, reference.masters)) << "masters at the end";
  EXPECT_EQ(found.grad_norms, reference.grad_norms);
  EXPECT_EQ(found.skipped, reference.skipped);
}

TrainingRecord reference(const ScriptedTraining& training) { return training.run(MINIMAL_C, {}).value(); }

/// The result of the plugin, which must equal the resident run; none where it reports that the model does not fit.
std::optional<TrainingRecord> run_where_it_fits(const ScriptedTraining& training, const PluginOptions& options) {
  auto found = training.run(GEMINI, options);
  if (!found.ok()) {
    EXPECT_EQ(found.error().kind, ErrorKind::does_not_fit) << found.error().message;
    return {};
  }
  expect_same(*found, reference(training));
  return std::move(*found);
}

TEST(Gemini, WithoutLimitsEqualsTheResidentRun) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    expect_same(training.run(GEMINI, {}).value(), reference(training));
  }
}

TEST(Gemini, WithStatesOnTheHostEqualsTheResidentRun) {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    expect_same(training.run(GEMINI, {{"placement_policy", "cpu"}, {"chunk_bytes", "4096"}}).value(),
                reference(training));
  }
}

TEST(Gemini, WithStatesOnNvmeEqualsTheResidentRun) {
  const Folder folder;
  std::uint64_t read_bytes = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    const auto found =
        training.run(GEMINI, {{"nvme", folder.path()}, {"nvme_offload_fraction", "1"}, {"chunk_bytes", "4096"}})
            .value();
    expect_same(found, reference(training));
    EXPECT_GT(found.stats.nvme_write_bytes, 0u);
    read_bytes += found.stats.nvme_read_bytes;
  }
  EXPECT_GT(read_bytes, 0u) << "a chunk needed again before its write is done need not be read, but most are";
  EXPECT_TRUE(folder.empty());
}

TEST(Gemini, UnderRandomTightBudgetsEqualsTheResidentRunAndStaysUnderThem) {
  const Folder folder;
  std::uint32_t n_ran = 0;
  for (std::uint32_t seed = 0; seed < 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    std::mt19937 random(seed + 1000);
    const std::uint64_t device = training.largest_unit_bytes() + random() % (training.payload_bytes() + 1);
    const std::uint64_t host = 16 * 4096 + random() % (8 * training.payload_bytes());
    const auto found = run_where_it_fits(training, {{"nvme", folder.path()},
                                                    {"device_budget", std::to_string(device)},
                                                    {"host_budget", std::to_string(host)},
                                                    {"chunk_bytes", std::to_string(512 + random() % 8192)},
                                                    {"overlap_updates", seed % 2 == 0 ? "true" : "false"},
                                                    {"speculative_updates", seed % 4 == 0 ? "on" : "off"},
                                                    {"stream_optim_frac", seed % 5 < 2 ? "0.5" : "0"},
                                                    {"split_master", seed % 3 == 0 ? "false" : "true"}});
    if (!found) continue;
    ++n_ran;
    EXPECT_LE(found->stats.peak_bytes[0], device);
    EXPECT_LE(found->stats.peak_bytes[1], host);
  }
  EXPECT_GT(n_ran, kSeeds) << "most draws should fit";
}

/// A policy with the options that it uses.
PluginOptions random_policy(std::mt19937& random, const ScriptedTraining& training) {
  const auto share = [&random] { return std::to_string(random() % 5 * 0.25); };
  switch (random() % 4) {
    case 0: return {{"placement_policy", "cpu"}};
    case 1: return {{"placement_policy", "cuda"}};
    case 2: return {{"placement_policy", "static"}, {"offload_param_frac", share()}, {"offload_optim_frac", share()}};
    default:
      return {{"placement_policy", "const"},
              {"const_device_bytes",
               std::to_string(training.largest_unit_bytes() + random() % (10 * training.payload_bytes()))}};
  }
}

TEST(Gemini, UnderEveryPolicyEqualsTheResidentRunOrSaysWhatDoesNotFit) {
  const Folder folder;
  std::map<std::string, int> n_ran;
  for (std::uint32_t seed = 0; seed < 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    std::mt19937 random(seed + 3000);
    PluginOptions options = random_policy(random, training);
    options["nvme"] = folder.path();
    options["chunk_bytes"] = std::to_string(512 + random() % 8192);
    if (random() % 2) options["device_budget"] = std::to_string((1 + random() % 10) * training.payload_bytes());
    const auto found = run_where_it_fits(training, options);
    if (!found) continue;
    ++n_ran[options["placement_policy"]];
    const auto constant = options.find("const_device_bytes");
    EXPECT_LE(found->stats.peak_bytes[0], constant == options.end() ? ~0ULL : std::stoull(constant->second));
  }
  for (const char* policy : {"cpu", "cuda", "static", "const"}) EXPECT_GT(n_ran[policy], 0) << policy;
}

TEST(Gemini, PolicyStaticKeepsTheStatedShareOffTheDevice) {
  const ScriptedTraining training(3);
  const auto peak_bytes = [&training](const char* share) {
    return training
        .run(GEMINI, {{"placement_policy", "static"}, {"offload_optim_frac", share}, {"chunk_bytes", "1024"}})
        .value()
        .stats.peak_bytes[0];
  };
  EXPECT_GT(peak_bytes("0"), peak_bytes("0.5"));
  EXPECT_GT(peak_bytes("0.5"), peak_bytes("1"));
}

TEST(Gemini, RefusesOptionsThatThePolicyDoesNotLookAt) {
  for (const char* option : {"offload_param_frac", "offload_optim_frac"}) {
    const auto refused = ScriptedTraining(1).run(GEMINI, {{option, "0.5"}});
    ASSERT_FALSE(refused.ok()) << option;
    EXPECT_EQ(refused.error().kind, ErrorKind::usage);
    EXPECT_NE(refused.error().message.find(std::string(option) + " needs placement_policy=static"), std::string::npos)
        << refused.error().message;
  }
  EXPECT_EQ(ScriptedTraining(1).run(GEMINI, {{"shard_param_frac", "0.5"}}).error().message,
            "shard_param_frac divides parameters among ranks, and there is one; leave it out");
  EXPECT_FALSE(ScriptedTraining(1).run(GEMINI, {{"const_device_bytes", "1MiB"}}).ok());
  const auto tight = ScriptedTraining(1).run(GEMINI, {{"placement_policy", "const"}, {"const_device_bytes", "1"}});
  EXPECT_NE(tight.error().message.find("raise `const_device_bytes` to"), std::string::npos) << tight.error().message;
  EXPECT_TRUE(ScriptedTraining(1).run(GEMINI, {{"offload_param_frac", "0.0"}}).ok()) << "says what is so anyway";
}

/// Little room on device and host, and drives below.
PluginOptions tight(const ScriptedTraining& training, const Folder& folder) {
  return {{"nvme", folder.path()},
          {"device_budget", std::to_string(training.largest_unit_bytes() + training.payload_bytes() / 3)},
          {"host_budget", std::to_string(16 * 4096 + 4 * training.payload_bytes())},
          {"chunk_bytes", "2048"}};
}

TEST(Gemini, UnitsThatRunInAnotherOrderEveryTimeEqualTheResidentRun) {
  const Folder folder;
  int n_ran = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed, {.another_order = true});
    const auto found = run_where_it_fits(training, tight(training, folder));
    if (!found) continue;
    ++n_ran;
  }
  EXPECT_GT(n_ran, 0);
}

TEST(Gemini, UpdatesDuringBackwardEqualTheResidentRun) {
  const Folder folder;
  int n_ran = 0;
  for (std::uint32_t seed = 0; seed < 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed, {.announces = true});
    PluginOptions options = {{"placement_policy", "cpu"}, {"chunk_bytes", "2048"}};
    if (seed % 2 == 0) options = tight(training, folder);
    options["overlap_updates"] = "true";
    options["speculative_updates"] = seed % 3 == 0 ? "off" : "on";
    const auto found = run_where_it_fits(training, options);
    n_ran += found ? 1 : 0;
  }
  EXPECT_GT(n_ran, 0);
}

// With clipping, updates wait for the next use, evaluation included; without it, updates of announced steps do not.
TEST(Gemini, StreamedStatesEqualTheResidentRun) {
  const Folder folder;
  int n_ran = 0;
  for (std::uint32_t seed = 0; seed < 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed, {.evaluates = seed % 4 == 0, .announces = seed % 3 != 0});
    PluginOptions options = {{"placement_policy", "cpu"}, {"chunk_bytes", "2048"}};
    if (seed % 2 == 0) options = tight(training, folder);
    options["stream_optim_frac"] = seed % 5 < 2 ? "0.5" : "1";
    if (seed % 7 == 0) options["nvme"] = folder.path(), options["nvme_offload_fraction"] = "0.5";
    n_ran += run_where_it_fits(training, options) ? 1 : 0;
  }
  EXPECT_GT(n_ran, 0);
}

/// Every second training has little room, and in every third updates begin during backward unless something forbids it.
void expect_the_resident_run(ScriptedTraining::Habits habits) {
  const Folder folder;
  int n_ran = 0, n_others = 0;
  for (std::uint32_t seed = 0; seed < 2 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    habits.announces = seed % 3 == 0;
    const ScriptedTraining training(seed, habits), plain(seed, {.announces = habits.announces});
    PluginOptions options = {{"placement_policy", seed % 4 == 1 ? "cuda" : "cpu"}, {"chunk_bytes", "2048"}};
    if (seed % 2 == 0) options = tight(training, folder);
    if (habits.optimizer == CASTOR_SGD || habits.optimizer == CASTOR_LARS) options["optimizer"] = "sgd";
    const auto found = run_where_it_fits(training, options);
    if (!found) continue;
    ++n_ran;
    n_others += !same_bits(found->masters, reference(plain).masters);
  }
  EXPECT_GT(n_ran, 0);
  EXPECT_GT(n_others, n_ran / 2) << "most should be trainings of their own";
}

TEST(Gemini, GroupsOfParametersEqualTheResidentRun) { expect_the_resident_run({.groups = true}); }
TEST(Gemini, ClippedValuesEqualTheResidentRun) { expect_the_resident_run({.clips_values = true}); }
TEST(Gemini, ClippedValuesOfGroupsEqualTheResidentRun) {
  expect_the_resident_run({.groups = true, .clips_values = true});
}

TEST(Gemini, SgdEqualsTheResidentRun) { expect_the_resident_run({.optimizer = CASTOR_SGD}); }
TEST(Gemini, SgdOfGroupsWithClippedValuesEqualsTheResidentRun) {
  expect_the_resident_run({.groups = true, .clips_values = true, .optimizer = CASTOR_SGD});
}

TEST(Gemini, LarsEqualsTheResidentRun) { expect_the_resident_run({.optimizer = CASTOR_LARS}); }
TEST(Gemini, LarsOfGroupsEqualsTheResidentRun) { expect_the_resident_run({.groups = true, .optimizer = CASTOR_LARS}); }

TEST(Gemini, LambEqualsTheResidentRun) { expect_the_resident_run({.optimizer = CASTOR_LAMB}); }
TEST(Gemini, LambOfGroupsEqualsTheResidentRun) { expect_the_resident_run({.groups = true, .optimizer = CASTOR_LAMB}); }

TEST(Gemini, StepsOfAnotherRuleThanTheStatesAreRefusedBeforeAnythingChanges) {
  const auto sgd = ScriptedTraining(1, {.optimizer = CASTOR_SGD}).run(GEMINI, {});
  ASSERT_FALSE(sgd.ok());
  EXPECT_EQ(sgd.error().kind, ErrorKind::usage);
  EXPECT_EQ(sgd.error().message,
            "gemini: the step is one of SGD or LARS, the states are kept for another rule; set optimizer=sgd");
  const auto adam = ScriptedTraining(1).run(GEMINI, {{"optimizer", "sgd"}});
  ASSERT_FALSE(adam.ok());
  EXPECT_EQ(adam.error().message,
            "gemini: the step is one of Adam or LAMB, the states are kept for another rule; set optimizer=adam");
  const auto mixed = ScriptedTraining(1).run(GEMINI, {{"optimizer", "sgd"}, {"moments", "mixed"}});
  ASSERT_FALSE(mixed.ok());
  EXPECT_EQ(mixed.error().message,
            "moments=mixed needs two moments and optimizer=sgd has one: set moments=fp32 or bf16");
}

TEST(Gemini, MomentsIn16BitsAreAnotherTrainingTheSameUnderAllBudgets) {
  const Folder folder;
  int n_ran = 0, n_others = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    PluginOptions options = {{"moments", seed % 2 == 0 ? "mixed" : "bf16"}, {"rounding_seed", std::to_string(seed)}};
    options["split_master"] = "false";
    const auto roomy = training.run(GEMINI, options).value();
    n_others += !same_bits(roomy.masters, reference(training).masters);
    options["split_master"] = "true";
    options.merge(tight(training, folder));
    const auto found = training.run(GEMINI, options);
    if (!found.ok()) continue;
    ++n_ran;
    expect_same(*found, roomy);
  }
  EXPECT_GT(n_ran, 0);
  EXPECT_GT(n_others, 0);
}

TEST(Gemini, EvaluationBetweenStepsLeavesTheTrainingAsItIs) {
  const Folder folder;
  int n_ran = 0;
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed, {.evaluates = true});
    const auto found = training.run(GEMINI, tight(training, folder));
    const auto alone = ScriptedTraining(seed).run(GEMINI, tight(training, folder));
    ASSERT_EQ(found.ok(), alone.ok());
    if (!found.ok()) continue;
    ++n_ran;
    expect_same(*found, reference(training));
    EXPECT_TRUE(same_bits(found->masters, alone->masters));
    EXPECT_EQ(found->grad_norms, alone->grad_norms);
  }
  EXPECT_GT(n_ran, 0);
}

/// Between micro-batches no value changes, whatever waits or was updated beside the last step.
TEST(Gemini, MastersThatAreReadWithinStepsAreThoseOfTheLastOne) {
  const Folder folder;
  int n_ran = 0;
  for (std::uint32_t seed = 0; seed < 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed, {.announces = seed % 3 != 0, .reads = true});
    PluginOptions options = {{"placement_policy", "cpu"}, {"chunk_bytes", "2048"}};
    if (seed % 2 == 0) options = tight(training, folder);
    if (seed % 5 < 2) options["stream_optim_frac"] = "0.5";
    options["speculative_updates"] = seed % 4 == 0 ? "off" : "on";
    n_ran += run_where_it_fits(training, options) ? 1 : 0;
  }
  EXPECT_GT(n_ran, 0);
}

TEST(Gemini, WithoutNvmeOrWithTooLittleOfItEqualsTheResidentRunOrSaysWhatDoesNotFit) {
  const Folder folder;
  std::uint32_t n_ran = 0;
  for (std::uint32_t seed = 0; seed < 3 * kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScriptedTraining training(seed);
    std::mt19937 random(seed + 2000);
    const std::uint64_t device = 2 * training.largest_unit_bytes() + random() % (4 * training.payload_bytes() + 1);
    const std::uint64_t host = 8 * 4096 + random() % (12 * training.payload_bytes());
    PluginOptions options = {{"device_budget", std::to_string(device)},
                             {"host_budget", std::to_string(host)},
                             {"chunk_bytes", std::to_string(512 + random() % 8192)}};
    if (random() % 2)
      options["nvme"] = folder.path(),
      options["nvme_budget"] = std::to_string(random() % (8 * training.payload_bytes()));
    const auto found = run_where_it_fits(training, options);
    if (!found) continue;
    ++n_ran;
    EXPECT_LE(found->stats.peak_bytes[0], device);
    EXPECT_LE(found->stats.peak_bytes[1], host);
  }
  EXPECT_GT(n_ran, kSeeds / 2) << "many draws should fit";
  EXPECT_TRUE(folder.empty());
}

TEST(Gemini, RefusesADeviceBudgetBelowTheLargestUnitWithTheBudgetThatWouldDo) {
  const ScriptedTraining training(7);
  const auto refused = training.run(GEMINI, {{"device_budget", "512"}, {"chunk_bytes", "512"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::does_not_fit);
  EXPECT_NE(refused.error().message.find("raise `device_budget` to "), std::string::npos) << refused.error().message;
}

TEST(Gemini, RefusesAMissingNvmeFolder) {
  const auto refused = ScriptedTraining(1).run(GEMINI, {{"nvme", "/nowhere/at/all"}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  EXPECT_NE(refused.error().message.find("/nowhere/at/all"), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace castor
