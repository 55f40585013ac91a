// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <castor/rules/state_format.h>
#include <castor/rules/update_arrays.h>

namespace castor {

/// The states of a tile's `numel` elements in memory: masters or their low bits, then exp_avg, then exp_avg_sq where it
/// is kept. Requires: `data` is aligned for fp32, and `numel` is even where low bits are kept.
class TileStates {
 public:
  TileStates(std::byte* data, std::uint64_t numel, DType weights, const StateFormat& format);

  /// Points the states of `arrays` at the tile's states from element `first` on; a master that is the weight itself at
  /// the weight of `arrays`.
  void point(UpdateArrays& arrays, std::uint64_t first) const;

  /// Sets all bytes of `n` elements from `first` on to 0. Host memory.
  void clear(std::uint64_t first, std::uint64_t n) const;

  /// Reads `n` elements from `first` on as fp32 values; their weights are at `weight`. Arrays that are null or not kept
  /// are left out. Host memory.
  void read(std::uint64_t first, std::uint64_t n, const std::byte* weight, float* master, float* exp_avg,
            float* exp_avg_sq) const;
  /// The reverse: values are rounded to the dtypes of the format, and the weights follow from the masters. What is null
  /// stays as it is.
  void write(std::uint64_t first, std::uint64_t n, std::byte* weight, const float* master, const float* exp_avg,
             const float* exp_avg_sq) const;

 private:
  std::byte* const data_;
  const std::uint64_t numel_;
  const DType weights_;
  const StateFormat format_;
};

}  // namespace castor
