// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/summary_json.h>

#include <nlohmann/json.hpp>

#include <castor/memprof/render.h>

namespace castor::memprof {
namespace {

using nlohmann::json;

double in_seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

json items_json(const std::vector<Item>& items) {
  json list = json::array();
  for (const Item& item : items)
    list.push_back({{"name", item.name}, {"n", item.n_times}, {"seconds", in_seconds(item.ns)}, {"bytes", item.bytes}});
  return list;
}

json tier_json(const TierUse& use) {
  return {{"peak_bytes", use.peak_bytes},
          {"peak_at_s", in_seconds(use.peak_t_ns)},
          {"budget_bytes", use.budget_bytes ? json(*use.budget_bytes) : json()}};
}

json lane_json(const LaneUse& use) {
  return {{"spans", use.n_spans},
          {"bytes", use.bytes},
          {"busy_s", in_seconds(use.busy_ns)},
          {"busy_share", use.busy_share},
          {"bytes_per_s", use.bytes_per_second}};
}

}  // namespace

json to_json(const Trace& trace, const Summary& summary) {
  json tiers = json::object(), lanes = json::object();
  for (const TierUse& use : summary.tiers) tiers[name(use.tier)] = tier_json(use);
  for (const LaneUse& use : summary.lanes) lanes[use.lane] = lane_json(use);
  return {{"model", trace.model},
          {"duration_s", in_seconds(summary.duration_ns)},
          {"tiers", tiers},
          {"lanes", lanes},
          {"totals", trace.totals},
          {"wait_s", in_seconds(summary.wait_ns)},
          {"longest_waits", items_json(summary.longest_waits)},
          {"most_moved", items_json(summary.most_moved)},
          {"bound", {{"by", summary.bound_by}, {"share", summary.bound_share}}},
          {"verdict", verdict(summary)}};
}

}  // namespace castor::memprof
