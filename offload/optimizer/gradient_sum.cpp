// SPDX-License-Identifier: Apache-2.0
#include "gradient_sum.h"

#include <algorithm>

namespace castor {

std::uint32_t GradientSum::n_parts() const {
  return pieces_.empty() ? 0 : static_cast<std::uint32_t>((pieces_.back().end() + kPartElements - 1) / kPartElements);
}

Result<void> GradientSum::run_part(GradAccumulator& kernel, Stream& stream, std::uint32_t part) const {
  const std::uint64_t begin = part * kPartElements, end = begin + kPartElements;
  const auto ends_before = [](const Piece& piece, std::uint64_t at) { return piece.end() <= at; };
  for (auto piece = std::lower_bound(pieces_.begin(), pieces_.end(), begin, ends_before);
       piece != pieces_.end() && piece->first < end; ++piece)
    CASTOR_TRY(run_range(kernel, stream, *piece, std::max(begin, piece->first), std::min(end, piece->end())));
  return {};
}

Result<void> GradientSum::run(GradAccumulator& kernel, Stream& stream) const {
  for (const Piece& piece : pieces_) CASTOR_TRY(run_range(kernel, stream, piece, piece.first, piece.end()));
  return {};
}

Result<void> GradientSum::run_range(GradAccumulator& kernel, Stream& stream, const Piece& piece, std::uint64_t first,
                                    std::uint64_t end) const {
  const std::byte* const grad = grads_ + first * size_bytes(dtype_);
  return piece.summed ? kernel.add(stream, sums_ + first, grad, dtype_, end - first)
                      : kernel.widen(stream, sums_ + first, grad, dtype_, end - first);
}

}  // namespace castor
