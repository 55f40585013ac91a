// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/text.h>

#include <algorithm>
#include <charconv>

namespace castor {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view last, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += i + 1 == parts.size() ? last : separator;
    text += parts[i];
  }
  return text;
}

std::string shortest(double value) {
  char text[32];
  const auto [end, errc] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, errc == std::errc() ? end : text);
}

}  // namespace castor
