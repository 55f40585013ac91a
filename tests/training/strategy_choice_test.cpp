// SPDX-License-Identifier: Apache-2.0
#include <castor/training/strategy_choice.h>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace castor {
namespace {

/// A plugin with options of these names.
struct SomePlugin {
  explicit SomePlugin(const std::vector<const char*>& names) {
    for (const char* name : names)
      options.push_back({sizeof(castor_option), CASTOR_OPTION_STRING, name, "", 0, 0, nullptr, ""});
    for (const castor_option& option : options) pointers.push_back(&option);
    info.name = "some";
    info.options = pointers.data();
    info.n_options = static_cast<std::uint32_t>(options.size());
  }
  std::vector<castor_option> options;
  std::vector<const castor_option*> pointers;
  castor_plugin_info info = {};
};

PluginOptions options_of(const Gemini& gemini) { return by_name(gemini).value().options; }

TEST(Gemini, FieldsThatAreLeftAloneSetNoOption) { EXPECT_EQ(options_of({}), PluginOptions()); }

TEST(Gemini, FieldsBecomeOptions) {
  const PluginOptions expected = {
      {"device_budget", "4096"},   {"host_budget", "0"},     {"nvme_budget", "18446744073709551615"},
      {"nvme", "/a,/b"},           {"durability", "commit"}, {"nvme_offload_fraction", "0.5"},
      {"placement_policy", "cpu"}, {"moments", "mixed"},     {"offload_activations", "true"},
      {"update_threads", "3"},     {"chunk_bytes", "64KiB"}};
  EXPECT_EQ(options_of({.device_budget = 4096,
                        .host_budget = 0,
                        .nvme_budget = std::numeric_limits<std::uint64_t>::max(),
                        .nvme = {"/a", "/b"},
                        .durability = Durability::commit,
                        .nvme_offload_fraction = 0.5,
                        .placement_policy = "cpu",
                        .moments = MomentFormat::mixed,
                        .offload_activations = true,
                        .update_threads = 3,
                        .set = {{"chunk_bytes", "64KiB"}}}),
            expected);
}

TEST(Gemini, AnOptionIsGivenOnce) {
  const auto refused = by_name(Gemini{.host_budget = 1, .set = {{"host_budget", "2"}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::usage);
  EXPECT_EQ(refused.error().message, "gemini: option host_budget is given as a field and as host_budget=2 in set");
}

TEST(WithFacts, ThePluginLearnsOfMicroBatchesWhereItAsks) {
  const SomePlugin asks({"accumulate_gradients"}), other({});
  EXPECT_EQ(with_facts({}, asks.info, {}).value(), PluginOptions());
  const TrainingFacts several{.accumulates = true};
  EXPECT_EQ(with_facts({}, asks.info, several).value(), (PluginOptions{{"accumulate_gradients", "true"}}));
  EXPECT_EQ(with_facts({}, other.info, several).value(), PluginOptions());
  const PluginOptions given = {{"accumulate_gradients", "false"}};
  EXPECT_EQ(with_facts(given, asks.info, several).value(), given);
}

TEST(WithFacts, ThePluginLearnsWhoseStatesToKeepWhereItAsks) {
  const SomePlugin asks({"optimizer"}), other({});
  EXPECT_EQ(with_facts({}, asks.info, {}).value(), (PluginOptions{{"optimizer", "adam"}}));
  EXPECT_EQ(with_facts({}, asks.info, {CASTOR_SGD}).value(), (PluginOptions{{"optimizer", "sgd"}}));
  EXPECT_EQ(with_facts({}, asks.info, {CASTOR_LAMB}).value(), (PluginOptions{{"optimizer", "adam"}}));
  EXPECT_EQ(with_facts({}, other.info, {CASTOR_SGD}).value(), PluginOptions());
  const auto refused = with_facts({{"optimizer", "adam"}}, asks.info, {CASTOR_LARS});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "plugin some: optimizer=adam keeps other moments than those of lars; leave the option out, it follows from "
            "the optimizer");
}

TEST(WithFacts, ThePluginLearnsTheSeedAsFarAsADoubleHoldsIt) {
  const SomePlugin asks({"rounding_seed"});
  EXPECT_EQ(with_facts({}, asks.info, {.seed = 7}).value(), (PluginOptions{{"rounding_seed", "7"}}));
  EXPECT_EQ(with_facts({}, asks.info, {.seed = (std::uint64_t{1} << 53) + 7}).value(),
            (PluginOptions{{"rounding_seed", "7"}}));
}

TEST(CommittedFolders, AreThoseOfNvmeWhereTheyAreTheCheckpoint) {
  using Folders = std::vector<std::filesystem::path>;
  EXPECT_EQ(committed_folders({{"nvme", "/a,/b"}, {"durability", "commit"}}), (Folders{"/a", "/b"}));
  EXPECT_EQ(committed_folders({{"nvme", "/a,/b"}}), Folders());
  EXPECT_EQ(committed_folders({{"durability", "scratch"}, {"nvme", "/a"}}), Folders());
}

}  // namespace
}  // namespace castor
