// SPDX-License-Identifier: Apache-2.0
#include "spelled_gpt.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

namespace castor::shapes {
namespace {

constexpr std::uint64_t kLargest = 1 << 24;

using Values = std::map<std::string, std::uint64_t, std::less<>>;

Result<std::uint64_t> parse_value(const std::string& key, std::string_view text) {
  const std::uint64_t least = key == "tied" ? 0 : 1, most = key == "tied" ? 1 : kLargest;
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stopped == end && value >= least && value <= most) return value;
  return Error{ErrorKind::usage, "model option " + key + "=" + std::string(text) + " is not a whole number from " +
                                     std::to_string(least) + " to " + std::to_string(most)};
}

Error not_understood(std::string_view part, const Values& known) {
  std::string keys;
  for (const auto& entry : known) keys += (keys.empty() ? "" : ", ") + entry.first;
  return {ErrorKind::usage,
          "model part '" + std::string(part) + "' was not understood; gpt: takes key=value with the keys " + keys};
}

}  // namespace

Result<GptSizes> parse_gpt(std::string_view keys, std::uint64_t positions) {
  Values values = {{"heads", 12}, {"hidden", 768}, {"layers", 12}, {"tied", 1}, {"vocab", 50304}, {"seq", positions}};
  while (!keys.empty()) {
    const std::string_view part = keys.substr(0, keys.find(','));
    const auto equals = part.find('=');
    const auto known = values.find(part.substr(0, equals));
    if (equals == std::string_view::npos || known == values.end()) return not_understood(part, values);
    CASTOR_ASSIGN(known->second, parse_value(known->first, part.substr(equals + 1)));
    keys.remove_prefix(std::min(keys.size(), part.size() + 1));
  }
  const std::uint64_t hidden = values["hidden"], heads = values["heads"];
  if (hidden % heads != 0)
    return Error{ErrorKind::usage,
                 "hidden size " + std::to_string(hidden) + " is not a multiple of heads " + std::to_string(heads)};
  return GptSizes{values["layers"], hidden, heads, values["vocab"], values["seq"], values["tied"] == 1};
}

}  // namespace castor::shapes
