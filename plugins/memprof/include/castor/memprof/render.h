// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <castor/memprof/summary.h>

namespace castor::memprof {

/// One character per value, from ` ` for 0 to `█` for `full` and more.
std::string sparkline(const std::vector<std::uint64_t>& values, std::uint64_t full);

/// The verdict: the busiest lane, whether it was busy for half of the run or more, and the time spent waiting.
std::string verdict(const Summary& summary);

/// `6.42 s, 12 units, 30 chunks, 5210 spans`.
std::string size_text(const Trace& trace, const Summary& summary);

/// `98 % of 6.00 MiB`, `no budget`.
std::string budget_text(const TierUse& use);

/// The summary for people.
std::string to_text(const Trace& trace, const Summary& summary);

}  // namespace castor::memprof
