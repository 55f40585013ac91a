// SPDX-License-Identifier: Apache-2.0
#include <castor/memprof/html.h>

#include <fmt/format.h>

#include <vector>

#include <castor/memory/bytes.h>
#include <castor/memprof/render.h>

#include "memory_picture.h"
#include "step_picture.h"
#include "svg.h"

namespace castor::memprof {
namespace {

using Cells = std::vector<std::string>;

constexpr const char* kStyle =
    "body{font:14px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif;max-width:1240px;margin:2em auto;padding:0 1em;"
    "background:#fff;color:#24292f}svg{display:block;width:100%;height:auto;margin:1.5em 0}"
    "h1{font-size:20px;margin:0}h2{font-size:15px;margin:1.5em 0 .4em}table{border-collapse:collapse}"
    "th,td{padding:.2em 1.2em .2em 0;text-align:right;border-bottom:1px solid "
    "#8c959f55;font-variant-numeric:tabular-nums}"
    "th:first-child,td:first-child{text-align:left}th{font-weight:600}.verdict{font-weight:600}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}}";

std::string row(const Cells& cells, const char* tag) {
  std::string text = "<tr>";
  for (const std::string& cell : cells) text += fmt::format("<{0}>{1}</{0}>", tag, escape(cell));
  return text + "</tr>\n";
}

std::string table(const std::string& head, const Cells& columns, const std::vector<Cells>& rows) {
  if (rows.empty()) return "";
  std::string text = "<h2>" + escape(head) + "</h2>\n<table>\n" + row(columns, "th");
  for (const Cells& cells : rows) text += row(cells, "td");
  return text + "</table>\n";
}

std::string seconds_text(std::int64_t ns) { return fmt::format("{:.3f} s", static_cast<double>(ns) * 1e-9); }

std::string tiers_table(const Summary& summary) {
  std::vector<Cells> rows;
  for (const TierUse& use : summary.tiers)
    rows.push_back({name(use.tier), format_bytes(use.peak_bytes), budget_text(use), seconds_text(use.peak_t_ns)});
  return table("Tiers", {"tier", "peak", "of its budget", "at"}, rows);
}

std::string lanes_table(const Summary& summary) {
  std::vector<Cells> rows;
  for (const LaneUse& use : summary.lanes)
    rows.push_back({use.lane, std::to_string(use.n_spans), use.bytes == 0 ? "–" : format_bytes(use.bytes),
                    use.bytes == 0 ? "–" : fmt::format("{:.2f} GB/s", use.bytes_per_second * 1e-9),
                    fmt::format("{:.0f} %", 100 * use.busy_share)});
  return table("Lanes over the run", {"lane", "spans", "bytes", "rate while busy", "busy"}, rows);
}

std::string waits_table(const Summary& summary) {
  std::vector<Cells> rows;
  for (const Item& item : summary.longest_waits)
    rows.push_back({item.name, seconds_text(item.ns), std::to_string(item.n_times)});
  return table("Longest waits for data, " + seconds_text(summary.wait_ns) + " in all", {"unit", "time", "waits"}, rows);
}

std::string moves_table(const Summary& summary) {
  std::vector<Cells> rows;
  for (const Item& item : summary.most_moved)
    rows.push_back({item.name, format_bytes(item.bytes), std::to_string(item.n_times)});
  return table("Moved most", {"chunk", "bytes", "moves"}, rows);
}

}  // namespace

std::string to_html(const Trace& trace, const Summary& summary) {
  const std::string name = trace.model.empty() ? "castor memprof" : trace.model;
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>" + escape(name) +
         "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + escape(name) + "</h1>\n<p>" +
         escape(size_text(trace, summary)) + "</p>\n<p class=\"verdict\">" + escape(verdict(summary)) + "</p>\n" +
         step_picture(trace) + memory_picture(trace, summary) + tiers_table(summary) + lanes_table(summary) +
         waits_table(summary) + moves_table(summary) + "</body>\n</html>\n";
}

}  // namespace castor::memprof
