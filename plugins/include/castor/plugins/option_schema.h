// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include <castor/memory/result.h>
#include <castor/plugins/abi.h>

namespace castor {

/// Options by name, as `--set name=value` gives them.
using PluginOptions = std::map<std::string, std::string>;
/// The options that a plugin declares.
using OptionSchema = std::span<const castor_option* const>;

/// The options that a plugin declares. The view is valid as long as the plugin, that is for ever. Requires: a plugin
/// that the loader accepted.
OptionSchema option_schema(const castor_plugin_info& info);

/// The values that `option` takes, for help and errors: `true or false`, `a whole number from 1 to 16`, `a size up to
/// 64 GiB`, `auto, cpu or cuda`.
std::string describe_values(const castor_option& option);

/// Checks one value and returns it as it crosses to the plugin: numbers in decimal, sizes as a count of bytes, text
/// unchanged. Errors: usage, with the value and the values that the option takes.
Result<std::string> check_option(const castor_option& option, std::string_view value);

/// Checks `options` against `schema` and fills in the defaults: the result holds each option once, retired ones left
/// out, as they cross. `plugin` names the plugin in errors. Errors: usage; for an unknown name, the nearest one and all
/// known ones.
Result<PluginOptions> complete_options(std::string_view plugin, OptionSchema schema, const PluginOptions& options);

/// Checks that a plugin declared its options well: each has a name of its own and a default within its range. Errors:
/// plugin.
Result<void> check_schema(OptionSchema schema);

}  // namespace castor
