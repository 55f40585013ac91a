// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "elements/norm_order.h"

/// The nodes of the norm's tree (grad_norm.h) on the host. Callers hold a DefaultFloatEnvironment.
namespace castor::kernels {

/// Folds a node whose upper half of children was already added to the lower; `children` holds the 2·kHalf that are
/// left.
template <std::uint64_t kHalf = kNormFan / 4>
inline double fold_halves(double* children) {
  for (std::uint64_t j = 0; j < kHalf; ++j) children[j] += children[j + kHalf];
  if constexpr (kHalf > 1)
    return fold_halves<kHalf / 2>(children);
  else
    return children[0];
}

/// Folds a node over `n` <= kNormFan children and overwrites them; 0 where there is none.
inline double fold_node(double* children, std::uint64_t n) {
  for (std::uint64_t half = kNormFan / 2; half > 0; half /= 2)
    for (std::uint64_t j = 0; j < half && j + half < n; ++j) children[j] += children[j + half];
  return n > 0 ? children[0] : 0;
}

/// The sum of squares of a row of `n` <= kNormRow values in `Format` (formats.h).
template <typename Format>
inline double sum_of_row(const typename Format::Bits* __restrict values, std::uint64_t n) {
  double squares[kNormRow];
  const auto squared = [values](std::uint64_t i) { return square(Format::widen(values[i])); };
  if (n == kNormRow) {
    for (std::uint64_t i = 0; i < kNormRow / 2; ++i) squares[i] = squared(i) + squared(i + kNormRow / 2);
    return fold_halves(squares);
  }
  for (std::uint64_t i = 0; i < n; ++i) squares[i] = squared(i);
  return fold_node(squares, n);
}

}  // namespace castor::kernels
