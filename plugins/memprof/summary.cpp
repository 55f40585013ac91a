// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/summary.h>

#include <algorithm>
#include <functional>

#include "ranges.h"

namespace castor::memprof {
namespace {

const std::string kWait = "wait";
const std::vector<std::string> kLanes = {"compute", "h2d", "d2h", "nvme_read", "nvme_write", "host_update", kWait};
const std::vector<std::string> kTransfers = {"h2d", "d2h", "nvme_read", "nvme_write"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::size_t part_of(std::int64_t t_ns, const Range& range) {
  if (range.length() == 0) return 0;
  const double share = static_cast<double>(t_ns - range.start_ns) / static_cast<double>(range.length());
  return std::min(kCourseParts - 1, static_cast<std::size_t>(share * kCourseParts));
}

/// A level holds until the next sample, so every part starts with the level of the one before.
std::vector<std::uint64_t> course_of(const Trace& trace, Tier tier, const Range& range) {
  std::vector<std::uint64_t> course(kCourseParts, 0);
  std::uint64_t level = 0;
  std::size_t part = 0;
  for (const Sample& sample : trace.samples) {
    for (const std::size_t target = part_of(sample.t_ns, range); part < target;) course[++part] = level;
    level = sample.bytes[index(tier)];
    course[part] = std::max(course[part], level);
  }
  while (part + 1 < kCourseParts) course[++part] = level;
  return course;
}

TierUse tier_use(const Trace& trace, Tier tier, const Range& range) {
  TierUse use{tier, 0, 0, trace.budget_bytes[index(tier)], course_of(trace, tier, range)};
  for (const Sample& sample : trace.samples) {
    const std::uint64_t bytes = sample.bytes[index(tier)];
    if (bytes > use.peak_bytes) use.peak_bytes = bytes, use.peak_t_ns = sample.t_ns - range.start_ns;
  }
  return use;
}

LaneUse lane_use(const Trace& trace, const std::string& lane, const Range& range) {
  LaneUse use{lane};
  for (const Span& span : trace.spans) {
    if (span.lane == lane) ++use.n_spans, use.bytes += span.bytes;
  }
  use.busy_ns = busy_ns(trace.spans, lane);
  if (range.length() > 0) use.busy_share = static_cast<double>(use.busy_ns) / static_cast<double>(range.length());
  if (use.busy_ns > 0)
    use.bytes_per_second = static_cast<double>(use.bytes) / (static_cast<double>(use.busy_ns) * 1e-9);
  return use;
}

/// The lanes that occur, those of docs/trace.md first.
std::vector<std::string> lanes_of(const Trace& trace) {
  std::vector<std::string> found;
  for (const Span& span : trace.spans) {
    if (!contains(found, span.lane)) found.push_back(span.lane);
  }
  const auto rank = [](const std::string& lane) {
    return std::find(kLanes.begin(), kLanes.end(), lane) - kLanes.begin();
  };
  std::stable_sort(found.begin(), found.end(), [&rank](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return found;
}

/// Adds up the spans that `counts` takes, by id.
std::map<std::int64_t, Item> by_id(const Trace& trace, const std::function<bool(const Span&)>& counts) {
  std::map<std::int64_t, Item> items;
  for (const Span& span : trace.spans) {
    if (!counts(span)) continue;
    Item& item = items[span.id];
    ++item.n_times, item.ns += span.end_ns - span.start_ns, item.bytes += span.bytes;
  }
  return items;
}

template <typename Amount>
std::vector<Item> top(const std::map<std::int64_t, Item>& items, const Amount& amount,
                      const std::function<std::string(std::int64_t)>& name) {
  std::vector<Item> list;
  for (const auto& [id, item] : items) {
    list.push_back(item);
    list.back().name = name(id);
  }
  std::stable_sort(list.begin(), list.end(), [&amount](const Item& a, const Item& b) { return amount(a) > amount(b); });
  list.resize(std::min(list.size(), kTop));
  return list;
}

void find_bound(Summary& summary) {
  for (const LaneUse& lane : summary.lanes) {
    if (lane.lane == kWait || lane.busy_share <= summary.bound_share) continue;
    summary.bound_by = lane.lane;
    summary.bound_share = lane.busy_share;
  }
}

}  // namespace

std::int64_t busy_ns(const std::vector<Span>& spans, const std::string& lane) {
  std::vector<Range> ranges;
  for (const Span& span : spans) {
    if (span.lane == lane) ranges.push_back({span.start_ns, span.end_ns});
  }
  return length_ns(unite(std::move(ranges)));
}

Summary summarize(const Trace& trace) {
  const Range range = whole_run(trace);
  Summary summary;
  summary.duration_ns = range.length();
  for (const Tier tier : kTiers) {
    const TierUse use = tier_use(trace, tier, range);
    if (use.peak_bytes > 0 || use.budget_bytes) summary.tiers.push_back(use);
  }
  for (const std::string& lane : lanes_of(trace)) summary.lanes.push_back(lane_use(trace, lane, range));
  const auto waits = by_id(trace, [](const Span& span) { return span.lane == kWait; });
  const auto moves = by_id(trace, [](const Span& span) { return contains(kTransfers, span.lane); });
  summary.wait_ns = busy_ns(trace.spans, kWait);
  summary.longest_waits = top(
      waits, [](const Item& item) { return item.ns; }, [&](std::int64_t id) { return unit_name(trace, id); });
  summary.most_moved = top(
      moves, [](const Item& item) { return item.bytes; }, [&](std::int64_t id) { return chunk_name(trace, id); });
  find_bound(summary);
  return summary;
}

}  // namespace castor::memprof
