// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <castor/parallel/communicator.h>

namespace castor {

/// Reduces `n_elements` of every source, element by element in the order of `sources`, in fp32 with one rounding at the
/// end, and writes the result to every target. A target may be one of the sources. Of equal zeros `max` keeps the
/// first.
void reduce_in_order(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                     std::uint64_t n_elements, DType dtype, ReduceOp op);

}  // namespace castor
