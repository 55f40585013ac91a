// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor::bench {

/// User and system time of this process so far, of all threads, the kernel's io_uring workers included.
double cpu_time_s();

}  // namespace castor::bench
