// SPDX-License-Identifier: Apache-2.0
#include "step_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <castor/memory/bytes.h>

#include "ranges.h"
#include "step_lanes.h"
#include "svg.h"

namespace castor::memprof {
namespace {

// Pixels.
constexpr double kBusyX = 942, kBesideX = 1042, kMovedX = 1190;
constexpr double kFirstLaneY = 84, kLaneHeight = 34, kLanePitch = 42, kTimesHeight = 34;
constexpr double kLeastWidth = 0.7;  // so that the shortest span is visible
constexpr double kFaintest =
    0.08;  // opacity of bars that are drawn wider than their spans: the less of a bar its spans cover, the fainter it
           // is

struct Look {
  const char* name;   ///< of a lane or a phase
  const char* label;  ///< of the lane, at its left
  const char* legend;
};

constexpr std::array kLooks = {
    Look{"forward", "", "forward"},
    Look{"backward", "", "backward"},
    Look{"compute", "compute", "forward or backward"},
    Look{"update", "", "update"},
    Look{"host_update", "host updates", ""},
    Look{"h2d", "copies up", "copy up"},
    Look{"d2h", "copies down", "copy down"},
    Look{"nvme_read", "NVMe reads", "NVMe read"},
    Look{"nvme_write", "NVMe writes", "NVMe write"},
    Look{"wait", "thread waits", "wait"},
};

const Look* look_of(const std::string& name) {
  const auto found =
      std::find_if(kLooks.begin(), kLooks.end(), [&name](const Look& look) { return name == look.name; });
  return found == kLooks.end() ? nullptr : &*found;
}

std::string label_of(const std::string& lane) { return look_of(lane) ? look_of(lane)->label : lane; }

std::string class_of(const Bar& bar) { return look_of(bar.kind) ? bar.kind : "other"; }

std::string percent(std::int64_t part_ns, std::int64_t whole_ns) {
  return whole_ns == 0 ? "–"
                       : fmt::format("{:.0f} %", 100 * static_cast<double>(part_ns) / static_cast<double>(whole_ns));
}

std::string rate(double bytes, std::int64_t ns) {
  const double per_second = bytes / static_cast<double>(ns) * 1e9;
  return per_second < 1e9 ? fmt::format("{:.0f} MB/s", per_second * 1e-6)
                          : fmt::format("{:.2f} GB/s", per_second * 1e-9);
}

std::string title_of(const Bar& bar, const Range& step) {
  const std::string what = bar.n_spans == 1 ? bar.name : fmt::format("{} pieces", bar.n_spans);
  std::string title = fmt::format("{} · {}\n{} from {}", what, bar.kind, format_time(bar.ns),
                                  format_time(bar.range.start_ns - step.start_ns));
  if (bar.bytes > 0) title += "\n" + format_bytes(bar.bytes);
  if (bar.bytes > 0 && bar.ns > 0 && bar.n_spans == 1) title += " · " + rate(static_cast<double>(bar.bytes), bar.ns);
  return title;
}

std::string bars_text(const StepLane& lane, const TimeAxis& axis, double top) {
  const double pitch = kLaneHeight / static_cast<double>(lane.n_rows);
  const double gap = lane.n_rows > 1 ? 1 : 0;
  std::string text;
  for (const Bar& bar : lane.bars) {
    const double x = axis.at(bar.range.start_ns);
    const Box box{x, top + pitch * static_cast<double>(bar.row), std::max(kLeastWidth, axis.at(bar.range.end_ns) - x),
                  pitch - gap};
    const double covered = static_cast<double>(bar.ns) / (box.width * axis.ns_per_pixel());
    text += svg_rect(box, class_of(bar), title_of(bar, axis.range), std::clamp(covered, kFaintest, 1.0));
  }
  return text;
}

/// A lane's figures, at its right.
std::string figures_text(const StepLane& lane, const Range& step, double middle) {
  std::string text = svg_text(kBusyX, middle, "", "end", percent(lane.busy_ns, step.length()));
  if (lane.lane != "compute" && lane.lane != "wait")
    text += svg_text(kBesideX, middle, "", "end", percent(lane.beside_compute_ns, lane.busy_ns));
  if (lane.bytes < 1) return text;
  const std::string moved = format_bytes(static_cast<std::uint64_t>(std::llround(lane.bytes)));
  return text + svg_text(kMovedX, middle, "muted", "end",
                         lane.busy_ns == 0 ? moved : moved + ", " + rate(lane.bytes, lane.busy_ns));
}

std::string lane_text(const StepLane& lane, const TimeAxis& axis, double top) {
  const double middle = top + kLaneHeight / 2 + 4;
  return fmt::format("<g id=\"lane-{}\">\n", escape(lane.lane)) +
         svg_rect({kLeft, top, kPlotWidth, kLaneHeight}, "floor") +
         svg_text(kLeft - 10, middle, "", "end", label_of(lane.lane)) + bars_text(lane, axis, top) +
         figures_text(lane, axis.range, middle) + "</g>\n";
}

/// A tint behind all lanes that shows which work ran beside forward and which beside backward.
std::string phases_text(const Trace& trace, const TimeAxis& axis, double bottom) {
  std::string text = "<g id=\"phases\">\n";
  for (const PhaseRange& phase : phases_of(trace, axis.range)) {
    const double x = axis.at(phase.range.start_ns), width = axis.at(phase.range.end_ns) - x;
    if (width >= 1) text += svg_rect({x, kFirstLaneY - 4, width, bottom - kFirstLaneY + 4}, "tint " + phase.phase);
  }
  return text + "</g>\n";
}

/// The legend of the kinds that occur.
std::string legend_text(const std::vector<StepLane>& lanes) {
  std::string text;
  double x = kLeft;
  for (const Look& look : kLooks) {
    const auto shows = [&look](const Bar& bar) { return bar.kind == look.name; };
    const bool occurs = std::any_of(lanes.begin(), lanes.end(), [&shows](const StepLane& lane) {
      return std::any_of(lane.bars.begin(), lane.bars.end(), shows);
    });
    if (!occurs) continue;
    text += svg_rect({x, 48, 12, 12}, look.name) + svg_text(x + 17, 58, "muted", "start", look.legend);
    x += 17 + 6.6 * static_cast<double>(std::string_view(look.legend).size()) + 22;
  }
  return text;
}

std::string head_text(const Trace& trace, const StepRange& step) {
  const std::string what = step.one_step ? "One step" : "The whole run";
  const std::string length = step.range.length() > 0 ? ", " + format_time(step.range.length()) : ": nothing to draw";
  const std::string where = step.one_step ? fmt::format("the last whole one of the file, from {} of the run on",
                                                        format_time(step.range.start_ns - whole_run(trace).start_ns))
                                          : "the file does not say where steps end";
  return svg_text(kLeft, 22, "head", "start", what + length) + svg_text(kLeft, 39, "small", "start", where) +
         svg_text(kBusyX, kFirstLaneY - 12, "small", "end", "busy") +
         svg_text(kBesideX, kFirstLaneY - 12, "small", "end", "beside compute") +
         svg_text(kMovedX, kFirstLaneY - 12, "small", "end", "moved, rate while busy");
}

std::string lanes_text(const Trace& trace, const std::vector<StepLane>& lanes, const TimeAxis& axis) {
  const double bottom = kFirstLaneY + kLanePitch * static_cast<double>(lanes.size());
  std::string text = phases_text(trace, axis, bottom) + axis.grid(kFirstLaneY - 4, bottom);
  for (std::size_t i = 0; i < lanes.size(); ++i)
    text += lane_text(lanes[i], axis, kFirstLaneY + kLanePitch * static_cast<double>(i));
  return text;
}

}  // namespace

std::string step_picture(const Trace& trace) {
  const StepRange step = last_whole_step(trace);
  const TimeAxis axis{step.range, kLeft, kPlotWidth};
  std::string body = head_text(trace, step);
  if (step.range.length() <= 0) return svg_document(kWidth, kFirstLaneY, "an empty step", body);
  const auto lanes = step_lanes(trace, step.range, std::llround(axis.ns_per_pixel()));
  body += legend_text(lanes) + lanes_text(trace, lanes, axis);
  const double height = kFirstLaneY + kLanePitch * static_cast<double>(lanes.size()) + kTimesHeight;
  return svg_document(kWidth, height, "timeline of one step", body);
}

}  // namespace castor::memprof
