// SPDX-License-Identifier: Apache-2.0
#include "step_lanes.h"

#include <algorithm>
#include <array>
#include <optional>

namespace castor::memprof {
namespace {

const std::string kCompute = "compute";
const std::string kUpdate = "update";

/// In the order of the picture: the lanes that compute, those that move bytes, then the waits.
constexpr std::array kPictureLanes = {"compute", "host_update", "h2d", "d2h", "nvme_read", "nvme_write", "wait"};

bool within(const Span& span, const Range& step) {
  return span.start_ns == span.end_ns ? span.start_ns >= step.start_ns && span.start_ns < step.end_ns
                                      : span.start_ns < step.end_ns && span.end_ns > step.start_ns;
}

std::string kind_of(const Span& span) {
  if (span.lane == "host_update") return kUpdate;
  return span.phase.empty() ? span.lane : span.phase;
}

/// In the order of their starts.
std::vector<Span> spans_within(const Trace& trace, const std::string& lane, const Range& step) {
  std::vector<Span> found;
  for (const Span& span : trace.spans)
    if (span.lane == lane && within(span, step)) found.push_back(span);
  std::stable_sort(found.begin(), found.end(), [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  return found;
}

std::vector<Range> ranges_of(const std::vector<Span>& spans, const Range& step) {
  std::vector<Range> ranges;
  for (const Span& span : spans) ranges.push_back(clip({span.start_ns, span.end_ns}, step));
  return unite(std::move(ranges));
}

/// Gives each span the first row that is free when it starts.
class Rows {
 public:
  std::size_t place(const Range& range) {
    std::size_t row = 0;
    while (row < ends_ns_.size() && ends_ns_[row] > range.start_ns) ++row;
    if (row == kMostRows) row = first_to_end();
    if (row == ends_ns_.size()) ends_ns_.push_back(range.end_ns);
    ends_ns_[row] = std::max(ends_ns_[row], range.end_ns);
    return row;
  }
  std::size_t n() const { return std::max<std::size_t>(1, ends_ns_.size()); }

 private:
  std::size_t first_to_end() const {
    return static_cast<std::size_t>(std::min_element(ends_ns_.begin(), ends_ns_.end()) - ends_ns_.begin());
  }

  std::vector<std::int64_t> ends_ns_;
};

/// Appends bars; merges a bar that is too narrow with its neighbour in the row.
class Merger {
 public:
  Merger(std::vector<Bar>& bars, std::int64_t narrow_ns) : bars_(bars), narrow_ns_(narrow_ns) {}

  void add(Bar bar) {
    auto& last = last_of_row_.at(bar.row);
    if (last && joins(bars_[*last], bar)) return merge(bars_[*last], bar);
    last = bars_.size();
    bars_.push_back(std::move(bar));
  }

 private:
  bool narrow(const Bar& bar) const { return bar.range.length() < narrow_ns_; }
  /// A bar merged from narrow ones keeps growing; a single span of visible width stays alone.
  bool joins(const Bar& last, const Bar& next) const {
    const bool grows = narrow(last) || last.n_spans > 1;
    return grows && narrow(next) && next.range.start_ns - last.range.end_ns < narrow_ns_;
  }
  static void merge(Bar& bar, const Bar& next) {
    if (next.ns > bar.ns) bar.kind = next.kind;
    bar.range.end_ns = std::max(bar.range.end_ns, next.range.end_ns);
    bar.n_spans += next.n_spans, bar.ns += next.ns, bar.bytes += next.bytes;
    bar.name.clear();
  }

  std::vector<Bar>& bars_;
  const std::int64_t narrow_ns_;
  std::array<std::optional<std::size_t>, kMostRows> last_of_row_;
};

double bytes_within(const Span& span, const Range& step) {
  const std::int64_t ns = span.end_ns - span.start_ns;
  const double part =
      ns == 0 ? 1 : static_cast<double>(clip({span.start_ns, span.end_ns}, step).length()) / static_cast<double>(ns);
  return part * static_cast<double>(span.bytes);
}

StepLane step_lane(const Trace& trace, const std::string& name, const Range& step, std::int64_t narrow_ns,
                   const std::vector<Range>& computing) {
  const std::vector<Span> spans = spans_within(trace, name, step);
  const std::vector<Range> busy = ranges_of(spans, step);
  StepLane lane{name};
  Rows rows;
  Merger merger(lane.bars, narrow_ns);
  for (const Span& span : spans) {
    const Range range = clip({span.start_ns, span.end_ns}, step);
    merger.add(
        {range, rows.place(range), kind_of(span), owner_name(trace, span), 1, span.end_ns - span.start_ns, span.bytes});
    lane.bytes += bytes_within(span, step);
  }
  lane.n_rows = rows.n();
  lane.busy_ns = length_ns(busy);
  lane.beside_compute_ns = shared_ns(busy, computing);
  return lane;
}

std::vector<Span> unit_spans(const Trace& trace, const Range& step) {
  std::vector<Span> spans = spans_within(trace, kCompute, step);
  std::erase_if(spans, [](const Span& span) { return span.phase == kUpdate; });
  return spans;
}

std::vector<std::string> lane_names(const Trace& trace) {
  std::vector<std::string> names(kPictureLanes.begin(), kPictureLanes.end());
  for (const Span& span : trace.spans)
    if (std::find(names.begin(), names.end(), span.lane) == names.end()) names.push_back(span.lane);
  return names;
}

}  // namespace

std::vector<StepLane> step_lanes(const Trace& trace, const Range& step, std::int64_t narrow_ns) {
  const std::vector<Range> computing = ranges_of(unit_spans(trace, step), step);
  std::vector<StepLane> lanes;
  for (const std::string& name : lane_names(trace)) lanes.push_back(step_lane(trace, name, step, narrow_ns, computing));
  return lanes;
}

std::vector<PhaseRange> phases_of(const Trace& trace, const Range& step) {
  std::vector<PhaseRange> phases;
  for (const Span& span : unit_spans(trace, step)) {
    if (span.phase.empty()) continue;
    const Range range = clip({span.start_ns, span.end_ns}, step);
    if (phases.empty() || phases.back().phase != span.phase) phases.push_back({range, span.phase});
    phases.back().range.end_ns = std::max(phases.back().range.end_ns, range.end_ns);
  }
  return phases;
}

}  // namespace castor::memprof
