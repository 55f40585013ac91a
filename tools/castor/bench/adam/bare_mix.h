// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/adam.h>

namespace castor::bench {

/// Moves the bytes of an update and computes nothing: reads and writes master and moments in place, reads the gradient,
/// and writes as many bytes to the weight past the caches, with the widest vectors of the processor.
///
/// `ahead_elements`: the distance at which it prefetches memory; 0 = no prefetch. Prefetches past the end of the arrays
/// have no effect.
/// Requires: 16-bit gradient and weight, arrays that begin at whole lines, and whole multiples of 64 elements.
/// Leaves the values unchanged (NaN excepted); the weight then holds the gradient.
void move_bare(const UpdateArrays& arrays, std::uint64_t ahead_elements);

}  // namespace castor::bench
