// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/clock.h>
#include <castor/memory/device.h>

namespace castor {

/// The rates of this machine's links in bytes per second, each measured alone.
struct LinkRates {
  double h2d = 0;        ///< from the device's host memory (pinned for a GPU) to the device
  double d2h = 0;        ///< from the device to that memory
  double host_copy = 0;  ///< one thread's memcpy in pageable memory; counts the bytes copied, not read plus written
};

/// Measures `device`'s links: per link one copy to warm up, then the median of up to five (of an even number the slower
/// of the two in the middle). Hosts of one kind differ by a quarter, so figures of another machine do not serve.
///
/// Buffers are 32 MiB, two of pageable memory, one of the device's host memory and one on the device, all given back. A
/// link stops after 40 ms, so that the whole takes under 0.3 s. Errors: does_not_fit where the buffers do not fit;
/// failed where a copy fails.   Threads: blocks the calling one.
Result<LinkRates> calibrate_links(Device& device, const Clock& clock = steady_now_ns);

}  // namespace castor
