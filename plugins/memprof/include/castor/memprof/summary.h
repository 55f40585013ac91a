// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <castor/memprof/trace.h>

namespace castor::memprof {

/// The peak use of one tier, and its use over the run.
struct TierUse {
  Tier tier = Tier::device;
  std::uint64_t peak_bytes = 0;
  std::int64_t peak_t_ns = 0;
  std::optional<std::uint64_t> budget_bytes;
  std::vector<std::uint64_t> course;  ///< highest bytes in each of kCourseParts equal parts of the run
};

/// The use of one lane. Busy = the union of its spans.
struct LaneUse {
  std::string lane;
  std::uint64_t n_spans = 0;
  std::uint64_t bytes = 0;
  std::int64_t busy_ns = 0;
  double busy_share = 0;        ///< of the run
  double bytes_per_second = 0;  ///< while busy
};

/// One unit's or chunk's share of waits or moves.
struct Item {
  std::string name;
  std::uint64_t n_times = 0;
  std::int64_t ns = 0;
  std::uint64_t bytes = 0;
};

struct Summary {
  std::int64_t duration_ns = 0;
  std::vector<TierUse> tiers;  ///< tiers that ever held a byte or have a budget
  std::vector<LaneUse> lanes;  ///< in the order of docs/trace.md, then others
  std::int64_t wait_ns = 0;
  std::vector<Item> longest_waits;  ///< by unit, longest first, at most kTop
  std::vector<Item> most_moved;     ///< by chunk, most bytes first, at most kTop
  std::string bound_by;             ///< the busiest lane that is not a wait; "" without spans
  double bound_share = 0;           ///< its busy share
};

inline constexpr std::size_t kCourseParts = 60;
inline constexpr std::size_t kTop = 5;

/// Length of the union of the spans of `lane`, ns.
std::int64_t busy_ns(const std::vector<Span>& spans, const std::string& lane);

/// Computes the summary. Pure.
Summary summarize(const Trace& trace);

}  // namespace castor::memprof
