// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/rules/adam.h>

namespace castor::bench {

/// Moves the bytes of an update and computes nothing: master and moments are read and written in place, the gradient is
/// read, and as many bytes are written to the weight past the caches; by the widest vectors that the processor has.
///
/// `ahead_elements`: how far in front of what it reads it asks for memory; 0 = not at all. What is read there belongs to
/// nobody and changes nothing.
/// Requires: 16-bit gradient and weight, arrays that begin at whole lines, and whole multiples of 64 elements.
/// Leaves: values as they were (NaN excepted); the weight holds the gradient.
void move_bare(const AdamArrays& arrays, std::uint64_t ahead_elements);

}  // namespace castor::bench
