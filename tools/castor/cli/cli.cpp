// SPDX-License-Identifier: Apache-2.0
#include "cli.h"

#include <castor/plugins/nearest_name.h>

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>

#include <algorithm>
#include <sstream>

#include <castor/memory/bytes.h>
#include <castor/memory/text.h>

namespace castor::cli {
namespace {

namespace po = boost::program_options;

constexpr unsigned kLineColumns = 110;
constexpr unsigned kTextColumns = 70;

std::vector<std::string> option_names(const CommandSyntax& syntax) {
  std::vector<std::string> names;
  for (const auto& option : syntax.options.options()) names.push_back("--" + option->long_name());
  return names;
}

Error unknown_option(const CommandSyntax& syntax, const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  const std::string near = did_you_mean(name, option_names(syntax));
  return {ErrorKind::usage, "unknown option '" + name + "'" + (near.empty() ? "; --help lists the options" : near)};
}

po::positional_options_description positions(const CommandSyntax& syntax) {
  po::positional_options_description description;
  for (const std::string& name : syntax.positional) description.add(name.c_str(), 1);
  return description;
}

/// Guessing is off: `--mod` is an error even if `--model` is the only match, so that a new option never changes the
/// meaning of an old script.
Values read(const CommandSyntax& syntax, const Arguments& arguments) {
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  Values values;
  po::store(po::command_line_parser(arguments).options(syntax.options).positional(positions(syntax)).style(style).run(),
            values);
  po::notify(values);
  return values;
}

}  // namespace

CommandSyntax::CommandSyntax(std::string usage_line, std::string about_text)
    : usage(std::move(usage_line)), about(std::move(about_text)), options("options", kLineColumns, kTextColumns) {
  options.add_options()("help,h", "show this text")("json", "print one JSON object as the last line of stdout");
}

std::string CommandSyntax::help() const {
  po::options_description shown("options", kLineColumns, kTextColumns);
  for (const auto& option : options.options()) {
    if (std::find(positional.begin(), positional.end(), option->long_name()) == positional.end()) shown.add(option);
  }
  std::ostringstream text;
  text << "usage: " << usage << "\n\n" << about << "\n\n" << shown;
  return text.str();
}

Result<Values> parse(const CommandSyntax& syntax, const Arguments& arguments) {
  try {
    return read(syntax, arguments);
  } catch (const po::unknown_option& e) {
    return unknown_option(syntax, e.get_option_name());
  } catch (const po::too_many_positional_options_error&) {
    return Error{ErrorKind::usage, "too many arguments; usage: " + syntax.usage};
  } catch (const po::error& e) {
    return Error{ErrorKind::usage, e.what()};
  }
}

bool has_flag(const Arguments& arguments, const std::string& flag) {
  return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
}

std::optional<std::string> text_of(const Values& values, const std::string& name) {
  return values.count(name) == 0 ? std::nullopt : std::optional(values[name].as<std::string>());
}

Result<std::optional<std::uint64_t>> bytes_of(const Values& values, const std::string& name) {
  const auto text = text_of(values, name);
  if (!text) return std::optional<std::uint64_t>();
  const auto n_bytes = parse_bytes(*text);
  if (!n_bytes) return Error{ErrorKind::usage, "--" + name + ": " + n_bytes.error().message};
  return std::optional(*n_bytes);
}

Error wrong(const std::string& option, const std::string& text, const std::string& takes) {
  return {ErrorKind::usage, "--" + option + " takes " + takes + ", not '" + text + "'"};
}

Result<std::vector<std::string>> folders_of(const Values& values, const std::string& name) {
  const auto text = text_of(values, name);
  if (!text) return std::vector<std::string>();
  if (text->empty()) return Error{ErrorKind::usage, "--" + name + " names no folder"};
  const std::vector<std::string> folders = split_list(*text);
  for (const std::string& folder : folders)
    if (folder.empty())
      return Error{ErrorKind::usage, "--" + name + " takes folders separated by commas, and one of them is empty"};
  return folders;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts = castor::split(text, separator);
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  return castor::join(parts, separator, separator);
}

}  // namespace castor::cli
