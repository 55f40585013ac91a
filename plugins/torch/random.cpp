// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/random.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

namespace castor {
namespace {

constexpr std::uint64_t kLeastPerThread = 1 << 16;

std::array<std::uint32_t, 4> philox_round(const std::array<std::uint32_t, 4>& c,
                                          const std::array<std::uint32_t, 2>& k) {
  const std::uint64_t even = std::uint64_t{0xD2511F53} * c[0];
  const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * c[2];
  return {static_cast<std::uint32_t>(odd >> 32) ^ c[1] ^ k[0], static_cast<std::uint32_t>(odd),
          static_cast<std::uint32_t>(even >> 32) ^ c[3] ^ k[1], static_cast<std::uint32_t>(even)};
}

/// In (0, 1): the middles of 2^53 equal intervals, so that the logarithm is finite.
double unit_interval(std::uint64_t word) { return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52; }

std::array<float, 2> normal_pair(const std::array<std::uint64_t, 2>& words, double stddev) {
  const double radius = stddev * std::sqrt(-2 * std::log(unit_interval(words[0])));
  const double angle = 2 * std::numbers::pi * unit_interval(words[1]);
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

std::array<float, 2> uniform_pair(const std::array<std::uint64_t, 2>& words, double half_width) {
  return {static_cast<float>(half_width * (2 * unit_interval(words[0]) - 1)),
          static_cast<float>(half_width * (2 * unit_interval(words[1]) - 1))};
}

/// The elements from `begin` on that `out` takes.
void fill_range(std::span<float> out, Init init, RandomKey key, std::uint64_t begin) {
  const std::uint64_t end = begin + out.size();
  for (std::uint64_t block = begin / 2; 2 * block < end; ++block) {
    const auto words = random_words(key, block);
    const auto pair =
        init.kind == Init::Kind::normal ? normal_pair(words, init.scale) : uniform_pair(words, init.scale);
    for (std::uint64_t i = std::max(begin, 2 * block); i < std::min(end, 2 * block + 2); ++i)
      out[i - begin] = pair[i % 2];
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    counter = philox_round(counter, key);
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

std::array<std::uint64_t, 2> random_words(RandomKey key, std::uint64_t block) {
  const auto words = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), key.stream, 0},
                            {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)});
  return {std::uint64_t{words[1]} << 32 | words[0], std::uint64_t{words[3]} << 32 | words[2]};
}

void fill(std::span<float> out, Init init, RandomKey key, int n_threads, std::uint64_t first) {
  if (init.kind == Init::Kind::zeros || init.kind == Init::Kind::ones)
    return std::fill(out.begin(), out.end(), init.kind == Init::Kind::ones ? 1.0f : 0.0f);
  const std::uint64_t most = std::max<std::uint64_t>(1, out.size() / kLeastPerThread);
  const std::uint64_t n = std::min<std::uint64_t>(std::max(n_threads, 1), most);
  if (n == 1) return fill_range(out, init, key, first);
  std::vector<std::jthread> workers;
  for (std::uint64_t w = 0; w < n; ++w) {
    const std::uint64_t begin = out.size() * w / n, end = out.size() * (w + 1) / n;
    workers.emplace_back([=] { fill_range(out.subspan(begin, end - begin), init, key, first + begin); });
  }
}

}  // namespace castor
