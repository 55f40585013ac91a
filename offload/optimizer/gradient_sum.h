// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/rules/grad_accumulator.h>

namespace castor {

/// Adds the gradients of some tensors of a chunk to the chunk's fp32 sums, as a whole or in parts by many threads.
class GradientSum {
 public:
  /// `sums` and `grads`: the first elements of the two chunks; `grads` has `dtype`.
  GradientSum(DType dtype, float* sums, const std::byte* grads) : dtype_(dtype), sums_(sums), grads_(grads) {}

  /// Adds the gradient of the tensor at `place` to its sum or, if it has none yet (`summed` is false), starts the sum
  /// with it. Requires: tensors are added in the order of their places.
  void add(const TensorPlace& place, bool summed) { pieces_.push_back({place.offset, place.numel, summed}); }

  /// The number of parts, of kPartElements of the chunk each.
  std::uint32_t n_parts() const;
  Result<void> run_part(GradAccumulator& kernel, Stream& stream, std::uint32_t part) const;
  Result<void> run(GradAccumulator& kernel, Stream& stream) const;

 private:
  static constexpr std::uint64_t kPartElements = std::uint64_t{128} << 10;

  struct Piece {
    std::uint64_t first = 0, numel = 0;  ///< elements of the chunk
    bool summed = false;
    std::uint64_t end() const { return first + numel; }
  };
  Result<void> run_range(GradAccumulator& kernel, Stream& stream, const Piece& piece, std::uint64_t first,
                         std::uint64_t end) const;

  const DType dtype_;
  float* const sums_;
  const std::byte* const grads_;
  std::vector<Piece> pieces_;
};

}  // namespace castor
