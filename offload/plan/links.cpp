// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/links.h>

#include <numeric>

namespace castor {

LinkBytes bytes_over(const Hops& taken, std::uint64_t n_bytes) {
  return {taken.h2d ? n_bytes : 0, taken.d2h ? n_bytes : 0, taken.nvme_read ? n_bytes : 0,
          taken.nvme_write ? n_bytes : 0};
}

LinkSeconds seconds_of(const LinkBytes& moved, const LinkCosts& costs) {
  return {static_cast<double>(moved.h2d) * costs.h2d, static_cast<double>(moved.d2h) * costs.d2h,
          static_cast<double>(moved.nvme_read) * costs.nvme_read,
          static_cast<double>(moved.nvme_write) * costs.nvme_write};
}

double sum(const LinkSeconds& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

}  // namespace castor
