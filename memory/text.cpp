// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/text.h>

#include <algorithm>
#include <charconv>

namespace castor {

namespace {

/// Bytes of the UTF-8 character at the start of `text`; 0 where there is none (RFC 3629, section 4).
std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t n = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (n == 0 || n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || no_character ? 0 : n;
}

}  // namespace

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

std::string as_utf8(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string readable;
  while (!text.empty()) {
    const std::size_t n = utf8_bytes(text);
    if (n > 0) {
      readable += text.substr(0, n);
    } else {
      const auto byte = static_cast<unsigned char>(text.front());
      readable += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return readable;
}

std::string shortest(double value) {
  char text[32];
  const auto [end, errc] = std::to_chars(text, text + sizeof text, value);
  return std::string(text, errc == std::errc() ? end : text);
}

}  // namespace castor
