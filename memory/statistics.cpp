// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/statistics.h>

#include <algorithm>

#include <castor/memory/result.h>

namespace castor {

double median(std::vector<double> values, Middle of_two) {
  if (values.empty()) throw ContractViolation("the median of 0 values");
  std::sort(values.begin(), values.end());
  const double lower = values[(values.size() - 1) / 2], upper = values[values.size() / 2];
  switch (of_two) {
    case Middle::lower: return lower;
    case Middle::mean: return (lower + upper) / 2;
    case Middle::upper: return upper;
  }
  throw ContractViolation("Middle holds no middle");
}

}  // namespace castor
