// SPDX-License-Identifier: Apache-2.0
#include "ranges.h"

#include <algorithm>

namespace castor::memprof {

std::vector<Range> unite(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start_ns < b.start_ns; });
  std::vector<Range> united;
  for (const Range& range : ranges) {
    if (range.length() <= 0) continue;
    if (united.empty() || range.start_ns > united.back().end_ns)
      united.push_back(range);
    else
      united.back().end_ns = std::max(united.back().end_ns, range.end_ns);
  }
  return united;
}

std::int64_t length_ns(const std::vector<Range>& ranges) {
  std::int64_t length = 0;
  for (const Range& range : ranges) length += range.length();
  return length;
}

std::int64_t shared_ns(const std::vector<Range>& a, const std::vector<Range>& b) {
  std::int64_t shared = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    shared += clip(a[i], b[j]).length();
    a[i].end_ns < b[j].end_ns ? ++i : ++j;
  }
  return shared;
}

Range clip(const Range& range, const Range& bounds) {
  const std::int64_t start_ns = std::max(range.start_ns, bounds.start_ns);
  return {start_ns, std::max(start_ns, std::min(range.end_ns, bounds.end_ns))};
}

Range whole_run(const Trace& trace) {
  if (trace.samples.empty() && trace.spans.empty()) return {};
  Range range{INT64_MAX, INT64_MIN};
  const auto cover = [&range](std::int64_t from, std::int64_t to) {
    range = {std::min(range.start_ns, from), std::max(range.end_ns, to)};
  };
  for (const Sample& sample : trace.samples) cover(sample.t_ns, sample.t_ns);
  for (const Span& span : trace.spans) cover(span.start_ns, span.end_ns);
  return range;
}

StepRange last_whole_step(const Trace& trace) {
  const auto& ends = trace.step_ends_ns;
  if (ends.size() >= 3) return {{ends[ends.size() - 3], ends[ends.size() - 2]}, true};
  if (ends.size() == 2) return {{ends[0], ends[1]}, true};
  if (ends.empty()) return {whole_run(trace), false};
  std::int64_t start_ns = ends[0];  // no earlier step end: the step begins with its first compute span
  for (const Span& span : trace.spans)
    if (span.lane == "compute") start_ns = std::min(start_ns, span.start_ns);
  return {{start_ns, ends[0]}, true};
}

}  // namespace castor::memprof
