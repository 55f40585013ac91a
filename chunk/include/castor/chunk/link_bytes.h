// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace castor {

/// Bytes that moved over each link.
struct LinkBytes {
  std::uint64_t h2d = 0, d2h = 0, nvme_read = 0, nvme_write = 0;

  LinkBytes& operator+=(const LinkBytes& more) {
    h2d += more.h2d, d2h += more.d2h, nvme_read += more.nvme_read, nvme_write += more.nvme_write;
    return *this;
  }
  /// Requires: no link of `less` has more bytes.
  friend LinkBytes operator-(const LinkBytes& all, const LinkBytes& less) {
    return {.h2d = all.h2d - less.h2d,
            .d2h = all.d2h - less.d2h,
            .nvme_read = all.nvme_read - less.nvme_read,
            .nvme_write = all.nvme_write - less.nvme_write};
  }
};

}  // namespace castor
