// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/bytes.h>

#include <array>
#include <charconv>
#include <cmath>

namespace castor {
namespace {

/// The power of two that a suffix stands for, or -1.
int shift_of(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 0;
  const std::string_view letters = "KMGT";
  const auto at = letters.find(suffix[0]);
  if (at == std::string_view::npos || (suffix.size() > 1 && suffix.substr(1) != "iB")) return -1;
  return 10 * (static_cast<int>(at) + 1);
}

/// Three digits, rounded to the nearest or up.
std::string written(std::uint64_t n_bytes, bool up) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double number = static_cast<double>(n_bytes);
  std::size_t unit = 0;
  while (number >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < kUnits.size()) {  // 1023.5 KiB would be written as 1024
    number /= 1024;
    ++unit;
  }
  const int n_decimals = unit == 0 || number >= 100 ? 0 : number >= 10 ? 1 : 2;
  const double per_one = std::array{1, 10, 100}[static_cast<std::size_t>(n_decimals)];
  std::array<char, 32> digits;
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), up ? std::ceil(number * per_one) / per_one : number,
                    std::chars_format::fixed, n_decimals);
  return std::string(digits.data(), end.ptr) + ' ' + kUnits[unit];
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const Error refused{ErrorKind::usage, "'" + std::string(text) + "' is not a size; write it as 512MiB, 8GiB or 0"};
  double number = 0;
  const auto [end, errc] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (errc != std::errc() || std::signbit(number) || !std::isfinite(number)) return refused;
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  if (suffix.size() > 1 && suffix[0] == ' ') suffix.remove_prefix(1);
  const int shift = shift_of(suffix);
  if (shift < 0) return refused;
  const double n_bytes = std::ldexp(number, shift);
  if (n_bytes >= 0x1p63) return refused;
  return static_cast<std::uint64_t>(std::llround(n_bytes));
}

std::string format_bytes(std::uint64_t n_bytes) { return written(n_bytes, false); }

std::string format_bytes_up(std::uint64_t n_bytes) { return written(n_bytes, true); }

}  // namespace castor
