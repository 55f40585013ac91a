// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::bench {

/// User and system time of this process so far, all threads together; the kernel's workers for io_uring belong to it.
double cpu_time_s();

}  // namespace castor::bench
