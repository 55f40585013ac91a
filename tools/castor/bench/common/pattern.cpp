// SPDX-License-Identifier: Apache-2.0
#include "pattern.h"

#include <cstring>

namespace castor::bench {
namespace {

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every bit of `x` changes half of the result's.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

std::uint64_t first_word(std::uint64_t key, std::uint64_t version) { return mixed(mixed(key + 1) + version); }

/// An odd step, so the words of a value are all different.
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;

std::byte byte_of(std::uint64_t first, std::uint64_t at) {
  const std::uint64_t word = first + at / 8 * kStep;
  std::byte bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  return bytes[at % 8];
}

}  // namespace

void fill_pattern(BufferView bytes, std::uint64_t key, std::uint64_t version) {
  const std::uint64_t first = first_word(key, version), n_words = bytes.n_bytes / 8;
  for (std::uint64_t i = 0; i < n_words; ++i) {
    const std::uint64_t word = first + i * kStep;
    std::memcpy(bytes.data + 8 * i, &word, sizeof word);
  }
  for (std::uint64_t at = 8 * n_words; at < bytes.n_bytes; ++at) bytes.data[at] = byte_of(first, at);
}

std::optional<std::uint64_t> find_difference(BufferView bytes, std::uint64_t key, std::uint64_t version) {
  const std::uint64_t first = first_word(key, version), n_words = bytes.n_bytes / 8;
  std::uint64_t differing = 0;
  for (std::uint64_t i = 0; i < n_words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data + 8 * i, sizeof word);
    differing |= word ^ (first + i * kStep);
  }
  const std::uint64_t from = differing == 0 ? 8 * n_words : 0;
  for (std::uint64_t at = from; at < bytes.n_bytes; ++at)
    if (bytes.data[at] != byte_of(first, at)) return at;
  return std::nullopt;
}

}  // namespace castor::bench
