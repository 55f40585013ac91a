// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/option_schema.h>
#include <castor/plugins/nearest_name.h>

#include <castor/memory/bytes.h>
#include <castor/memory/text.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

namespace castor {
namespace {

constexpr std::string_view kTrueOrFalse = "true|false";

bool has_choices(const castor_option& option) {
  return option.type == CASTOR_OPTION_BOOL || option.type == CASTOR_OPTION_ENUM;
}

std::vector<std::string> choices(const castor_option& option) {
  return split(option.type == CASTOR_OPTION_BOOL ? kTrueOrFalse : std::string_view(option.choices), '|');
}

std::string format_limit(const castor_option& option, double limit) {
  if (option.type == CASTOR_OPTION_BYTES) return format_bytes(static_cast<std::uint64_t>(std::llround(limit)));
  return shortest(limit);
}

std::string describe_range(const castor_option& option) {
  const bool is_size = option.type == CASTOR_OPTION_BYTES;
  const bool has_min = std::isfinite(option.min) && !(is_size && option.min <= 0);
  const bool has_max = std::isfinite(option.max) && !(is_size && option.max >= 0x1p63);
  if (has_min && has_max)
    return " from " + format_limit(option, option.min) + " to " + format_limit(option, option.max);
  if (has_min) return " from " + format_limit(option, option.min) + " up";
  if (has_max) return " up to " + format_limit(option, option.max);
  return "";
}

bool within(const castor_option& option, double number) { return number >= option.min && number <= option.max; }

/// The whole of `text` as a T.
template <typename T>
Result<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, errc] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (errc != std::errc() || end != text.data() + text.size())
    return Error{ErrorKind::usage, "is not a number that fits"};
  return number;
}

/// `text` as it crosses. The error names the fault alone: check_option adds the rest.
Result<std::string> parse_integer(const castor_option& option, std::string_view text) {
  CASTOR_ASSIGN(const std::int64_t number, parse_number<std::int64_t>(text));
  if (!within(option, static_cast<double>(number))) return Error{ErrorKind::usage, "is out of range"};
  return std::to_string(number);
}

Result<std::string> parse_float(const castor_option& option, std::string_view text) {
  CASTOR_ASSIGN(const double number, parse_number<double>(text));
  if (!std::isfinite(number) || !within(option, number)) return Error{ErrorKind::usage, "is out of range"};
  return std::string(text);
}

Result<std::string> parse_size(const castor_option& option, std::string_view text) {
  if (text.empty() && !*option.default_value) return std::string();  // a limit that is not set
  const auto n_bytes = parse_bytes(text);
  if (!n_bytes.ok()) return Error{ErrorKind::usage, "is not a size"};
  if (!within(option, static_cast<double>(*n_bytes))) return Error{ErrorKind::usage, "is out of range"};
  return std::to_string(*n_bytes);
}

Result<std::string> parse_choice(const castor_option& option, std::string_view text) {
  for (const auto& choice : choices(option))
    if (choice == text) return choice;
  return Error{ErrorKind::usage, "is not among its values"};
}

Result<std::string> parse_value(const castor_option& option, std::string_view text) {
  switch (option.type) {
    case CASTOR_OPTION_INT: return parse_integer(option, text);
    case CASTOR_OPTION_FLOAT: return parse_float(option, text);
    case CASTOR_OPTION_BYTES: return parse_size(option, text);
    case CASTOR_OPTION_STRING: return std::string(text);
    case CASTOR_OPTION_BOOL:
    case CASTOR_OPTION_ENUM: return parse_choice(option, text);
    case CASTOR_OPTION_RETIRED: break;
  }
  return Error{ErrorKind::usage, "cannot be set any more"};
}

const castor_option* find(OptionSchema schema, std::string_view name) {
  for (const castor_option* const option : schema)
    if (name == option->name) return option;
  return nullptr;
}

/// The options that can be set.
std::vector<std::string> live_names(OptionSchema schema) {
  std::vector<std::string> names;
  for (const castor_option* const option : schema)
    if (option->type != CASTOR_OPTION_RETIRED) names.emplace_back(option->name);
  return names;
}

Error unknown_option(std::string_view plugin, OptionSchema schema, const std::string& name) {
  const auto names = live_names(schema);
  std::string message = "plugin " + std::string(plugin) + " has no option '" + name + "'";
  if (const auto nearest = nearest_name(name, names)) message += ", did you mean '" + *nearest + "'?";
  return {ErrorKind::usage, message + (names.empty() ? "; it takes none" : "; it takes " + join(names, " and ")), name};
}

Error broken_schema(std::size_t i, const std::string& what) {
  return {ErrorKind::plugin, "its option " + std::to_string(i) + " " + what + "; the plugin must be corrected"};
}

/// Whether the fields that the type needs are set.
bool is_complete(const castor_option& option) {
  const bool known = option.type <= CASTOR_OPTION_RETIRED;
  return known && option.default_value && option.help && (option.type != CASTOR_OPTION_ENUM || option.choices);
}

Result<void> check_declaration(OptionSchema schema, std::size_t i) {
  if (schema[i] == nullptr || schema[i]->struct_size < sizeof(castor_option))
    return broken_schema(i, "is null or shorter than version 2.0 has it");
  const castor_option& option = *schema[i];
  if (!option.name || !*option.name) return broken_schema(i, "has no name");
  const std::string name = "('" + std::string(option.name) + "') ";
  if (!is_complete(option)) return broken_schema(i, name + "lacks a known type, a default, a help line or its choices");
  if (find(schema.first(i), option.name)) return broken_schema(i, name + "carries the name of an earlier one");
  if (option.type == CASTOR_OPTION_RETIRED) return {};
  if (const auto value = check_option(option, option.default_value); !value.ok())
    return broken_schema(i, name + "refuses its own default: " + value.error().message);
  return {};
}

}  // namespace

OptionSchema option_schema(const castor_plugin_info& info) { return {info.options, info.n_options}; }

std::string describe_values(const castor_option& option) {
  if (has_choices(option)) return join(choices(option), " or ");
  switch (option.type) {
    case CASTOR_OPTION_INT: return "a whole number" + describe_range(option);
    case CASTOR_OPTION_FLOAT: return "a number" + describe_range(option);
    case CASTOR_OPTION_BYTES: return "a size such as 512MiB" + describe_range(option);
    case CASTOR_OPTION_RETIRED: return "nothing any more";
    default: return "any text";
  }
}

Result<std::string> check_option(const castor_option& option, std::string_view value) {
  auto crossing = parse_value(option, value);
  if (crossing.ok()) return crossing;
  const std::string what =
      "option '" + std::string(option.name) + "': '" + std::string(value) + "' " + crossing.error().message;
  return Error{ErrorKind::usage, what + "; it takes " + describe_values(option), option.name};
}

Result<PluginOptions> complete_options(std::string_view plugin, OptionSchema schema, const PluginOptions& options) {
  for (const auto& [name, value] : options) {
    const castor_option* option = find(schema, name);
    if (!option) return unknown_option(plugin, schema, name);
    if (option->type == CASTOR_OPTION_RETIRED)
      return Error{ErrorKind::usage,
                   "plugin " + std::string(plugin) + ": option '" + name + "' has no effect any more; " + option->help,
                   name};
  }
  PluginOptions complete;
  for (const castor_option* const option : schema) {
    if (option->type == CASTOR_OPTION_RETIRED) continue;
    const auto set = options.find(option->name);
    const auto crossing = check_option(*option, set == options.end() ? option->default_value : set->second);
    if (!crossing.ok())
      return Error{ErrorKind::usage, "plugin " + std::string(plugin) + ": " + crossing.error().message, option->name};
    complete[option->name] = *crossing;
  }
  return complete;
}

Result<void> check_schema(OptionSchema schema) {
  for (std::size_t i = 0; i < schema.size(); ++i) CASTOR_TRY(check_declaration(schema, i));
  return {};
}

}  // namespace castor
