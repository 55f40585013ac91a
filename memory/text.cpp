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

std::string join_list(std::span<const std::string> parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += ',';
    for (const char c : part) text += c == ',' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return text;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\');
    if (escapes)
      parts.back() += text[++i];
    else if (text[i] == ',')
      parts.emplace_back();
    else
      parts.back() += text[i];
  }
  return parts;
}

std::string shortest(double value) {
  char text[32];
  const auto [end, errc] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, errc == std::errc() ? end : text);
}

}  // namespace castor
