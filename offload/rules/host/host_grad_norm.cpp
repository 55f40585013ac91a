// SPDX-License-Identifier: Apache-2.0
#include <castor/rules/grad_norm.h>

#include <algorithm>
#include <string>
#include <vector>

#include "float_environment.h"
#include "elements/formats.h"
#include "norm_tree.h"

namespace castor {
namespace {

using namespace kernels;

/// The sum of squares of one block of `n` <= kNormBlock elements.
template <typename Grad>
double block_sum(const typename Grad::Bits* __restrict grad, std::uint64_t n) {
  double rows[kNormFan];
  for (std::uint64_t row = 0; row < n_norm_rows(n); ++row)
    rows[row] = sum_of_row<Grad>(grad + row * kNormRow, std::min(kNormRow, n - row * kNormRow));
  return fold_node(rows, n_norm_rows(n));
}

class HostGradNorm final : public GradNormKernel {
 public:
  Result<void> sum_of_squares(Stream&, const void* grad, DType dtype, std::uint64_t n, double* sum) override {
    std::vector<double> blocks(n_norm_blocks(n));
    sum_norm_blocks(grad, dtype, n, 0, blocks.size(), blocks.data());
    *sum = add_norm_blocks(blocks);
    return {};
  }
};

}  // namespace

void sum_norm_blocks(const void* grad, DType dtype, std::uint64_t n, std::uint64_t first_block, std::uint64_t n_blocks,
                     double* sums) {
  if (first_block + n_blocks > n_norm_blocks(n))
    throw ContractViolation("gradient norm: blocks " + std::to_string(first_block) + " to " +
                            std::to_string(first_block + n_blocks) + " of " + std::to_string(n_norm_blocks(n)));
  const DefaultFloatEnvironment environment;
  with_format(dtype, [&](auto format) {
    using Grad = decltype(format);
    const auto* elements = static_cast<const typename Grad::Bits*>(grad);
    for (std::uint64_t start = first_block * kNormBlock; n_blocks-- > 0; start += kNormBlock)
      *sums++ = block_sum<Grad>(elements + start, std::min(kNormBlock, n - start));
  });
}

double add_norm_blocks(std::span<const double> sums) {
  const DefaultFloatEnvironment environment;
  std::vector<double> level(sums.begin(), sums.end());
  do {
    for (std::uint64_t node = 0; node < n_norm_nodes(level.size()); ++node) {
      const std::uint64_t first = node * kNormFan;
      level[node] = fold_node(&level[first], std::min(kNormFan, level.size() - first));
    }
    level.resize(n_norm_nodes(level.size()));
  } while (level.size() > 1);
  return level.empty() ? 0 : canonical_sum(level.front());
}

std::unique_ptr<GradNormKernel> make_host_grad_norm() { return std::make_unique<HostGradNorm>(); }

}  // namespace castor
