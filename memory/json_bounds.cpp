// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/json_bounds.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

namespace castor {
namespace {

constexpr std::size_t kMostLevels = 32;
constexpr double kMostAbsolute = 2305843009213693952.0;  // 2^61: differences of two fit into 64 bits

bool in_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'; }

bool is_plain(std::string_view number) {
  double value = 0;
  const auto [end, errc] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (errc == std::errc::result_out_of_range || std::abs(value) > kMostAbsolute) return false;
  return number.front() != '-' || number.find_first_of(".eE") == std::string_view::npos;
}

}  // namespace

std::optional<std::string> json_out_of_bounds(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') {
      ++i;  // the next character is no end of the string
    } else if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      continue;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostLevels) return "it nests more than " + std::to_string(kMostLevels) + " levels deep";
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const auto end = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(i), text.end(), in_number);
      const std::size_t n = static_cast<std::size_t>(end - text.begin()) - i;
      if (!is_plain(text.substr(i, n))) return "one of its numbers is out of range";
      i += n - 1;
    }
  }
  return std::nullopt;
}

}  // namespace castor
