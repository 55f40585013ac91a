// SPDX-License-Identifier: Apache-2.0
#include <castor/training/strategy_choice.h>

#include <algorithm>
#include <string_view>

#include <castor/memory/text.h>
#include <castor/training/optimizer_families.h>
#include <castor/training/run_folders.h>

namespace castor {
namespace {

/// The fields of `gemini` that are given, as options.
PluginOptions given_fields(const Gemini& gemini) {
  PluginOptions given;
  if (gemini.device_budget) given["device_budget"] = std::to_string(*gemini.device_budget);
  if (gemini.host_budget) given["host_budget"] = std::to_string(*gemini.host_budget);
  if (gemini.nvme_budget) given["nvme_budget"] = std::to_string(*gemini.nvme_budget);
  if (!gemini.nvme.empty()) given["nvme"] = folders_text(gemini.nvme);
  if (gemini.durability == Durability::commit) given["durability"] = "commit";
  if (gemini.nvme_offload_fraction) given["nvme_offload_fraction"] = shortest(*gemini.nvme_offload_fraction);
  if (!gemini.placement_policy.empty()) given["placement_policy"] = gemini.placement_policy;
  if (gemini.moments != MomentFormat::f32) given["moments"] = name(gemini.moments);
  if (gemini.offload_activations) given["offload_activations"] = "true";
  if (gemini.update_threads > 0) given["update_threads"] = std::to_string(gemini.update_threads);
  return given;
}

Result<void> check_name(const std::filesystem::path& folder) {
  if (!folder.empty()) return {};
  return Error{ErrorKind::usage, "a folder of `nvme` has no name", "nvme"};
}

bool has_option(const castor_plugin_info& plugin, std::string_view option) {
  const auto schema = option_schema(plugin);
  return std::any_of(schema.begin(), schema.end(), [&](const castor_option* known) { return known->name == option; });
}

}  // namespace

Result<PluginByName> by_name(const Gemini& gemini) {
  for (const auto& folder : gemini.nvme) CASTOR_TRY(check_name(folder));
  PluginByName named{"gemini", given_fields(gemini)};
  for (const auto& [option, value] : gemini.set)
    if (!named.options.emplace(option, value).second)
      return Error{ErrorKind::usage,
                   "gemini: option " + option + " is given as a field and as " + option + "=" + value + " in set",
                   option};
  return named;
}

Result<PluginOptions> with_facts(PluginOptions options, const castor_plugin_info& plugin, const TrainingFacts& facts) {
  const std::string states = keeps_exp_avg_sq(facts.optimizer) ? "adam" : "sgd";
  const auto say = [&](const char* option, const std::string& value) {
    if (has_option(plugin, option)) options.emplace(option, value);
  };
  say("optimizer", states);
  if (facts.accumulates) say("accumulate_gradients", "true");
  say("rounding_seed", std::to_string(rounding_seed(facts.seed)));
  if (const auto found = options.find("optimizer"); found != options.end() && found->second != states)
    return Error{ErrorKind::usage,
                 std::string("plugin ") + plugin.name + ": optimizer=" + found->second +
                     " keeps other moments than those of " + name(facts.optimizer) +
                     "; leave the option out, it follows from the optimizer",
                 "optimizer"};
  return options;
}

std::vector<std::filesystem::path> committed_folders(const PluginOptions& options) {
  const auto durability = options.find("durability"), nvme = options.find("nvme");
  if (durability == options.end() || durability->second != "commit" || nvme == options.end()) return {};
  std::vector<std::filesystem::path> folders;
  for (const std::string& folder : split_list(nvme->second)) folders.emplace_back(folder);
  return folders;
}

}  // namespace castor
