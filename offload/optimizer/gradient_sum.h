// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <castor/chunk/chunk_layout.h>
#include <castor/rules/grad_accumulator.h>

namespace castor {

/// Gradients of some tensors of a chunk on their way into the chunk's fp32 sums, whole or in parts by many threads.
class GradientSum {
 public:
  /// `sums` and `grads`: the chunk's first elements; the latter of `dtype`.
  GradientSum(DType dtype, float* sums, const std::byte* grads) : dtype_(dtype), sums_(sums), grads_(grads) {}

  /// The tensor that lies at `place`: added to its sum, or where it has none yet (`summed`) the first of it. Those that are
  /// added later lie behind.
  void add(const TensorPlace& place, bool summed) { pieces_.push_back({place.offset, place.numel, summed}); }

  /// Of kPartElements of the chunk each.
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
