// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <castor/plugins/option_schema.h>
#include <castor/plugins/plugin_loader.h>

#include "commands.h"
#include "torch_tag.h"

#include <castor/plugins/nearest_name.h>
#include <castor/training/plugin_folders.h>

#include <array>

namespace castor::cli {
namespace {

using nlohmann::json;

CommandSyntax list_syntax() {
  CommandSyntax syntax(
      "castor plugins list [options]",
      "Lists every plugin on the search path (the folders of CASTOR_PLUGIN_PATH, then those beside castor):\n"
      "its name, version and file, or why it was refused.");
  syntax.options.add_options()("verbose,v", "show the options of each plugin, for `castor train --set name=value`");
  return syntax;
}

json option_json(const castor_option& option) {
  return {{"name", option.name},
          {"takes", describe_values(option)},
          {"default", option.default_value},
          {"help", option.help}};
}

json listing_json(const PluginListing& listing) {
  json object = {{"path", listing.path.string()}, {"ok", listing.plugin.ok()}};
  if (!listing.plugin) {
    object["refused"] = listing.plugin.error().message;
    return object;
  }
  const castor_plugin_info& info = *listing.plugin->info;
  object.update(
      {{"name", info.name}, {"version", info.version}, {"summary", info.summary}, {"options", json::array()}});
  for (const castor_option* const option : option_schema(info)) object["options"].push_back(option_json(*option));
  return object;
}

std::string options_text(const castor_plugin_info& info) {
  std::string text;
  for (const castor_option* const option : option_schema(info)) {
    text += fmt::format("\n      {}={}\n          {} ({})", option->name, option->default_value, option->help,
                        describe_values(*option));
  }
  return text;
}

std::string listing_text(const PluginListing& listing, bool verbose) {
  if (!listing.plugin) return fmt::format("✗ refused: {}", listing.plugin.error().message);
  const castor_plugin_info& info = *listing.plugin->info;
  return fmt::format("✓ {} {}: {}\n      {}{}", info.name, info.version, info.summary, listing.path.string(),
                     verbose ? options_text(info) : "");
}

int list(const Arguments& arguments, Output& output) {
  const Parsed parsed = parse_command(list_syntax(), arguments, output);
  if (parsed.exit_code) return *parsed.exit_code;
  json found = json::array();
  for (const PluginListing& listing : PluginLoader(torch_tag(), plugin_folders()).list()) {
    output.line(listing_text(listing, parsed.values.count("verbose") != 0));
    found.push_back(listing_json(listing));
  }
  if (found.empty()) output.line("no plugin found; name their folders in CASTOR_PLUGIN_PATH");
  output.result({{"plugins", found}});
  return 0;
}

}  // namespace

int run_plugins(const Arguments& arguments, Output& output) {
  if (!arguments.empty() && arguments[0] == "list") return list({arguments.begin() + 1, arguments.end()}, output);
  if (has_flag(arguments, "--help") || has_flag(arguments, "-h")) return list({"--help"}, output);
  const std::string word = arguments.empty() ? "" : arguments[0];
  if (word.empty() || word[0] == '-')
    return output.fail({ErrorKind::usage, "plugins needs a word after it: castor plugins list"});
  return output.fail({ErrorKind::usage, "unknown word '" + word + "' after plugins; there is only list" +
                                            did_you_mean(word, std::array<std::string, 1>{"list"})});
}

}  // namespace castor::cli
