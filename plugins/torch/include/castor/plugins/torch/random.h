// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace castor {

/// The initial values of a parameter. They depend on the seed, the parameter's index in named_parameters() and its
/// shape: never on order, placement or thread count.
struct Init {
  enum class Kind { zeros, ones, normal, uniform };
  Kind kind = Kind::zeros;
  double scale = 0;  ///< standard deviation (normal) or half-width (uniform)
  static Init zeros() { return {Kind::zeros, 0}; }
  static Init ones() { return {Kind::ones, 0}; }
  static Init normal(double stddev) { return {Kind::normal, stddev}; }
  static Init uniform(double half_width) { return {Kind::uniform, half_width}; }
};

/// Selects the numbers that are drawn: the same seed and stream give the same numbers, another stream others.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
};

/// Four random words for `counter`: Philox-4x32 with 10 rounds.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Words 2·block and 2·block + 1 of `key`, 64 bits each.
std::array<std::uint64_t, 2> random_words(RandomKey key, std::uint64_t block);

/// Fills `out` with the elements of a parameter from `first` on, as `init` says; element i depends on `key` and i
/// alone. Normals come from Box and Muller's transform in fp64, rounded once. `n_threads` only decides the time it
/// takes: about 25 ns per normal element and thread.
void fill(std::span<float> out, Init init, RandomKey key, int n_threads = 1, std::uint64_t first = 0);

}  // namespace castor
