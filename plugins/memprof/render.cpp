// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/render.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include <castor/memory/bytes.h>

namespace castor::memprof {
namespace {

constexpr double kBusyShare = 0.5;  // a lane that is idle most of the time bounds nothing

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double share(std::int64_t part_ns, std::int64_t whole_ns) {
  return whole_ns > 0 ? static_cast<double>(part_ns) / static_cast<double>(whole_ns) : 0;
}

std::string tiers_text(const Summary& summary) {
  std::string text = "\ntier    peak        of its budget          at\n";
  for (const TierUse& use : summary.tiers) {
    text += fmt::format("{:<7} {:<11} {:<22} {:.3f} s\n", name(use.tier), format_bytes(use.peak_bytes),
                        budget_text(use), seconds(use.peak_t_ns));
  }
  text += "\n";
  for (const TierUse& use : summary.tiers) {
    text += fmt::format("{:<7} {}\n", name(use.tier),
                        sparkline(use.course, std::max(use.peak_bytes, use.budget_bytes.value_or(0))));
  }
  return text;
}

std::string lanes_text(const Summary& summary) {
  std::string text = "\nlane         spans      bytes        rate          busy\n";
  for (const LaneUse& use : summary.lanes) {
    const std::string rate = use.bytes == 0 ? "-" : fmt::format("{:.2f} GB/s", use.bytes_per_second * 1e-9);
    text += fmt::format("{:<12} {:<10} {:<12} {:<13} {:.0f} %\n", use.lane, use.n_spans,
                        use.bytes == 0 ? "-" : format_bytes(use.bytes), rate, 100 * use.busy_share);
  }
  return text;
}

std::string waits_text(const Summary& summary) {
  std::string text = fmt::format("\nwaited for data: {:.3f} s, {:.1f} % of the run\n", seconds(summary.wait_ns),
                                 100 * share(summary.wait_ns, summary.duration_ns));
  for (const Item& item : summary.longest_waits)
    text += fmt::format("  {:<40} {:.3f} s in {} waits\n", item.name, seconds(item.ns), item.n_times);
  return text;
}

std::string moves_text(const Summary& summary) {
  if (summary.most_moved.empty()) return "\nno chunk was moved\n";
  std::string text = "\nmoved most\n";
  for (const Item& item : summary.most_moved)
    text += fmt::format("  {:<40} {} in {} moves\n", item.name, format_bytes(item.bytes), item.n_times);
  return text;
}

}  // namespace

std::string sparkline(const std::vector<std::uint64_t>& values, std::uint64_t full) {
  constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const std::uint64_t value : values) {
    const double height = full == 0 ? 0 : 8 * static_cast<double>(value) / static_cast<double>(full);
    text += kBars[std::min<std::size_t>(8, static_cast<std::size_t>(height + (value > 0 ? 0.999 : 0)))];
  }
  return text;
}

std::string size_text(const Trace& trace, const Summary& summary) {
  return fmt::format("{:.3f} s, {} units, {} chunks, {} spans", seconds(summary.duration_ns), trace.units.size(),
                     trace.chunks.size(), trace.spans.size());
}

std::string budget_text(const TierUse& use) {
  if (!use.budget_bytes) return "no budget";
  if (*use.budget_bytes == 0) return "budget 0 B";
  const double part = static_cast<double>(use.peak_bytes) / static_cast<double>(*use.budget_bytes);
  return fmt::format("{:.0f} % of {}", 100 * part, format_bytes(*use.budget_bytes));
}

std::string verdict(const Summary& summary) {
  if (summary.bound_by.empty()) return "nothing to judge: the trace holds no spans";
  const bool bound = summary.bound_share >= kBusyShare;
  return fmt::format("{} {}: busy {:.0f} % of {:.3f} s; waits for data took {:.1f} %",
                     bound ? "bound by" : "bound by no lane; the busiest is", summary.bound_by,
                     100 * summary.bound_share, seconds(summary.duration_ns),
                     100 * share(summary.wait_ns, summary.duration_ns));
}

std::string to_text(const Trace& trace, const Summary& summary) {
  const std::string head = (trace.model.empty() ? "" : trace.model + ": ") + size_text(trace, summary) + "\n";
  return head + tiers_text(summary) + lanes_text(summary) + waits_text(summary) + moves_text(summary) + "\n" +
         verdict(summary);
}

}  // namespace castor::memprof
