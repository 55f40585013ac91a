// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>

namespace castor::test {

/// Borrows `text`.
inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The contents of the file at `path`; empty where there is no such file.
inline std::optional<std::string> text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

}  // namespace castor::test
