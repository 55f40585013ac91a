// SPDX-License-Identifier: Apache-2.0
#include "kernel_file.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace castor {
namespace {

std::optional<std::uint64_t> number_of(std::string_view word) {
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, errc] = std::from_chars(word.data(), end, number);
  if (errc == std::errc() && rest == end) return number;
  return std::nullopt;
}

std::optional<std::uint64_t> number_in_stream(std::istream& stream, std::size_t index) {
  std::string word;
  for (std::size_t i = 0; i <= index; ++i)
    if (!(stream >> word)) return std::nullopt;
  return number_of(word);
}

}  // namespace

std::optional<std::uint64_t> number_in(const std::filesystem::path& file, std::size_t index) {
  std::ifstream stream(file);
  return number_in_stream(stream, index);
}

std::optional<std::uint64_t> field_in(const std::filesystem::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(name) || line.size() == name.size() || line[name.size()] != ' ') continue;
    std::istringstream rest(line.substr(name.size()));
    return number_in_stream(rest, 0);
  }
  return std::nullopt;
}

}  // namespace castor
