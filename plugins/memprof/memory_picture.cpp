// SPDX-License-Identifier: Apache-2.0
#include "memory_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <castor/memory/bytes.h>

#include "ranges.h"
#include "svg.h"

namespace castor::memprof {
namespace {

// Pixels.
constexpr double kFiguresX = 912;
constexpr double kFirstY = 56, kPanelHeight = 96, kPanelPitch = 120, kAxisHeight = 10;

/// A budget far above the peak would flatten the curve, so it appears as text only.
constexpr std::uint64_t kMostTimesPeak = 4;

struct Panel {
  const TierUse& use;
  const TimeAxis& axis;
  double top = 0;

  bool budget_drawn() const { return use.budget_bytes && *use.budget_bytes / kMostTimesPeak <= use.peak_bytes; }
  std::uint64_t full_bytes() const {
    return std::max<std::uint64_t>({1, use.peak_bytes, budget_drawn() ? *use.budget_bytes : 0});
  }
  double bottom() const { return top + kPanelHeight; }
  /// A full tier is drawn a little below the top.
  double at(std::uint64_t n_bytes) const {
    return bottom() - 0.92 * kPanelHeight * static_cast<double>(n_bytes) / static_cast<double>(full_bytes());
  }
};

/// The highest byte count in each pixel's time: a level holds until the next sample.
std::vector<std::uint64_t> levels_of(const Trace& trace, Tier tier, const TimeAxis& axis) {
  std::vector<std::uint64_t> levels(static_cast<std::size_t>(axis.width) + 1, 0);
  std::uint64_t level = 0;
  std::size_t pixel = 0;
  for (const Sample& sample : trace.samples) {
    const auto target = static_cast<std::size_t>(std::max(0.0, axis.at(sample.t_ns) - axis.x));
    while (pixel < std::min(target, levels.size() - 1)) levels[++pixel] = level;
    level = sample.bytes[index(tier)];
    levels[pixel] = std::max(levels[pixel], level);
  }
  while (pixel + 1 < levels.size()) levels[++pixel] = level;
  return levels;
}

std::string area(const Panel& panel, const std::vector<std::uint64_t>& levels) {
  std::string path = fmt::format("M{:.0f} {:.1f}", panel.axis.x, panel.bottom());
  std::uint64_t drawn = 0;
  for (std::size_t pixel = 0; pixel < levels.size(); ++pixel) {
    if (levels[pixel] == drawn) continue;
    drawn = levels[pixel];
    path += fmt::format("H{:.0f}V{:.1f}", panel.axis.x + static_cast<double>(pixel), panel.at(drawn));
  }
  path += fmt::format("H{:.0f}V{:.1f}Z", panel.axis.x + panel.axis.width, panel.bottom());
  return "<path class=\"area\" d=\"" + path + "\"/>\n";
}

std::string scale(const Panel& panel) {
  std::string text;
  for (const std::uint64_t tick : round_byte_ticks(panel.full_bytes(), 4)) {
    text += svg_line(kLeft, panel.at(tick), kLeft + kPlotWidth, panel.at(tick), "grid");
    text += svg_text(kLeft - 8, panel.at(tick) + 4, "small", "end", tick_bytes(tick));
  }
  return text;
}

std::string figures(const Panel& panel) {
  const TierUse& use = panel.use;
  std::string text = svg_text(kFiguresX, panel.top + 18, "head", "start", name(use.tier)) +
                     svg_text(kFiguresX, panel.top + 38, "", "start", "peak " + format_bytes(use.peak_bytes));
  if (!use.budget_bytes) return text + svg_text(kFiguresX, panel.top + 56, "muted", "start", "no budget");
  text += svg_text(kFiguresX, panel.top + 56, "budget-text", "start", "budget " + format_bytes(*use.budget_bytes));
  if (!panel.budget_drawn())
    return text + svg_text(kFiguresX, panel.top + 72, "small", "start", "far above the picture");
  const double y = panel.at(*use.budget_bytes);
  return text + svg_line(kLeft, y, kLeft + kPlotWidth, y, "budget");
}

std::string panel_text(const Trace& trace, const Panel& panel) {
  return fmt::format("<g id=\"tier-{}\">\n", name(panel.use.tier)) + scale(panel) +
         area(panel, levels_of(trace, panel.use.tier, panel.axis)) + figures(panel) + "</g>\n";
}

/// Shades the step that the other picture shows.
std::string step_mark(const Trace& trace, const TimeAxis& axis, double bottom) {
  const StepRange step = last_whole_step(trace);
  if (!step.one_step) return "";
  const double x = axis.at(step.range.start_ns), width = std::max(1.0, axis.at(step.range.end_ns) - x);
  return svg_text(kLeft, 39, "small", "start", "shaded: the step of the other picture") +
         svg_rect({x, kFirstY - 8, width, bottom - kFirstY + 8}, "step");
}

}  // namespace

std::string memory_picture(const Trace& trace, const Summary& summary) {
  const TimeAxis axis{whole_run(trace), kLeft, kPlotWidth};
  const std::string head = svg_text(kLeft, 22, "head", "start", "Memory in use over the run");
  if (axis.range.length() <= 0 || trace.samples.empty())
    return svg_document(kWidth, kFirstY, "no samples", head + svg_text(kLeft, 40, "small", "start", "no samples"));
  const double bottom = kFirstY + kPanelPitch * static_cast<double>(summary.tiers.size());
  std::string body = head + step_mark(trace, axis, bottom) + axis.grid(kFirstY - 8, bottom);
  for (std::size_t i = 0; i < summary.tiers.size(); ++i)
    body += panel_text(trace, {summary.tiers[i], axis, kFirstY + kPanelPitch * static_cast<double>(i)});
  return svg_document(kWidth, bottom + 24 + kAxisHeight, "bytes in use on each tier", body);
}

}  // namespace castor::memprof
