// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli.h"

namespace castor::cli {

/// Each function reads the text of an option that was given or has a default. Errors: usage, naming the option and the
/// values it accepts.

/// A whole number from `min` to `max`.
template <typename T>
Result<void> read_count(const Values& values, const std::string& option, T min, T max, T& target) {
  const std::string text = values[option].as<std::string>();
  const auto parsed = number<T>(text);
  if (!parsed || *parsed < min || *parsed > max)
    return wrong(option, text, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  target = *parsed;
  return {};
}

/// A number above 0, or 0 if `zero_allowed`.
Result<void> read_number(const Values& values, const std::string& option, bool zero_allowed, double& target);

/// One of a few words; sets `target` to the value paired with the word.
template <typename T>
Result<void> read_choice(const Values& values, const std::string& option,
                         const std::vector<std::pair<std::string, T>>& choices, T& target) {
  const std::string text = values[option].as<std::string>();
  std::vector<std::string> words;
  for (const auto& [word, meaning] : choices) {
    words.push_back(word);
    if (word == text) return target = meaning, Result<void>();
  }
  return wrong(option, text, join(words, "|"));
}

/// The `name=value` pairs of --set; a repeated name is an error.
Result<void> read_set(const Values& values, std::map<std::string, std::string>& target);

}  // namespace castor::cli
