// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace castor {

/// The value that is the median of an even number of values: one of the two in the middle, or their mean.
enum class Middle : std::uint8_t { lower, mean, upper };

/// The median of `values`, which may be in any order. Of an even number of them it is the mean of the two in the middle
/// unless `of_two` names another. Requires: at least one value (ContractViolation), none of them NaN.
double median(std::vector<double> values, Middle of_two = Middle::mean);

}  // namespace castor
