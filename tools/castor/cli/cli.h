// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include <castor/memory/result.h>

namespace castor::cli {

using Arguments = std::vector<std::string>;
using Values = boost::program_options::variables_map;

/// The syntax of a command: the text above its options, its options (`--help` and `--json` are added to all), and the
/// names of its positional arguments in order.
struct CommandSyntax {
  std::string usage;  ///< `castor memprof TRACE [options]`
  std::string about;  ///< a sentence or more
  boost::program_options::options_description options;
  std::vector<std::string> positional;  ///< each also an option of `options`, left out of the help

  CommandSyntax(std::string usage_line, std::string about_text);
  /// The text of `--help`: usage, about, and every option with its default.
  std::string help() const;
};

/// Parses `arguments`. Errors: usage; for an unknown option it names the nearest known one.
Result<Values> parse(const CommandSyntax& syntax, const Arguments& arguments);

/// True if `flag` is among `arguments`: needed before parsing, to know how to report a parse error.
bool has_flag(const Arguments& arguments, const std::string& flag);

/// The text of option `name`, or nothing if it was not given and has no default.
std::optional<std::string> text_of(const Values& values, const std::string& name);

/// The byte count in option `name`. Errors: usage, naming the option.
Result<std::optional<std::uint64_t>> bytes_of(const Values& values, const std::string& name);

/// `--option takes …, not 'text'`.
Error wrong(const std::string& option, const std::string& text, const std::string& takes);

/// Parses the whole of `text` as a T; nothing if that fails.
template <typename T>
std::optional<T> number(const std::string& text) {
  T parsed{};
  const auto [end, errc] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  return errc == std::errc() && end == text.data() + text.size() ? std::optional(parsed) : std::nullopt;
}

/// The folders that option `name` lists, separated by commas (split_list). Empty where the option was not given. Errors:
/// usage, naming the option, where one of them is empty.
Result<std::vector<std::string>> folders_of(const Values& values, const std::string& name);

/// Splits `text` at `separator`, which may also end it; an empty text has no parts.
std::vector<std::string> split(const std::string& text, char separator);

/// `a, b, c`.
std::string join(const std::vector<std::string>& parts, const std::string& separator);

}  // namespace castor::cli
