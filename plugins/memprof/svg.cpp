// SPDX-License-Identifier: Apache-2.0
#include "svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace castor::memprof {
namespace {

struct TimeUnit {
  const char* name;
  double ns;
};

TimeUnit unit_for(double ns) {
  if (ns >= 1e9) return {"s", 1e9};
  if (ns >= 1e6) return {"ms", 1e6};
  return {"µs", 1e3};
}

}  // namespace

std::string escape(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += static_cast<unsigned char>(c) < ' ' && c != '\n' ? ' ' : c;
    }
  }
  return safe;
}

std::vector<double> round_ticks(double length, std::size_t n_most) {
  const double least = length / static_cast<double>(n_most);
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double times : {1., 2., 5.})
    if (times * power >= least * (1 - 1e-9)) {
      step = times * power;
      break;
    }
  std::vector<double> ticks;
  for (std::size_t k = 0; static_cast<double>(k) * step <= length * (1 + 1e-9); ++k)
    ticks.push_back(static_cast<double>(k) * step);
  return ticks;
}

std::vector<std::uint64_t> round_byte_ticks(std::uint64_t n_bytes, std::size_t n_most) {
  std::uint64_t step = 1;
  while (n_bytes / step > n_most) step *= 2;
  std::vector<std::uint64_t> ticks;
  for (std::uint64_t tick = 0; tick <= n_bytes; tick += step) ticks.push_back(tick);
  return ticks;
}

std::string tick_bytes(std::uint64_t n_bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && n_bytes >= 1024 && n_bytes % 1024 == 0; ++unit) n_bytes /= 1024;
  return fmt::format("{} {}", n_bytes, kUnits[unit]);
}

std::string format_time(std::int64_t ns) {
  const TimeUnit unit = unit_for(static_cast<double>(ns));
  const double value = static_cast<double>(ns) / unit.ns;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit.name);
}

std::string svg_style() {
  return "<style>text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}"
         ".head{font-size:15px;font-weight:600}.muted{fill:#656d76}.small{fill:#656d76;font-size:11px}"
         ".grid{stroke:#8c959f;stroke-opacity:.3}.floor{fill:#8c959f;fill-opacity:.1}"
         ".forward,.compute{fill:#3f7fc1}.backward{fill:#e08a1e}.update{fill:#3c9d56}.h2d{fill:#17a2a8}.d2h{fill:#"
         "9a6bc4}"
         ".nvme_read{fill:#c2a000}.nvme_write{fill:#a9713f}.wait{fill:#dc4b4b}.other{fill:#8c959f}.tint{fill-opacity:."
         "1}"
         ".step{fill:#e08a1e;fill-opacity:.16}.area{fill:#3f7fc1;fill-opacity:.3;stroke:#3f7fc1;stroke-width:1.2}"
         ".budget{stroke:#dc4b4b;stroke-width:1.5;stroke-dasharray:6 4}.budget-text{fill:#dc4b4b;font-size:11px}"
         "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.muted,.small{fill:#9aa4af}}</style>\n";
}

std::string svg_document(double width, double height, std::string_view label, const std::string& body) {
  return fmt::format(
             R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
             R"(viewBox="0 0 {0:.0f} {1:.0f}" )"
             R"(role="img" aria-label="{2}">)",
             width, height, escape(label)) +
         "\n" + svg_style() + body + "</svg>\n";
}

std::string svg_rect(const Box& box, std::string_view look, std::string_view title, double covered) {
  const std::string start = fmt::format(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}")",
                                        look, box.x, box.y, box.width, box.height);
  const std::string thin = covered < 0.995 ? fmt::format(R"( fill-opacity="{:.2f}")", covered) : "";
  return start + thin + (title.empty() ? "/>\n" : "><title>" + escape(title) + "</title></rect>\n");
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view look) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", look, x1, y1, x2, y2) +
         "\n";
}

std::string svg_text(double x, double y, std::string_view look, std::string_view anchor, std::string_view text) {
  return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", look, x, y, anchor,
                     escape(text)) +
         "\n";
}

double TimeAxis::at(std::int64_t t_ns) const { return x + static_cast<double>(t_ns - range.start_ns) / ns_per_pixel(); }

std::string TimeAxis::grid(double top, double bottom) const {
  const TimeUnit unit = unit_for(static_cast<double>(range.length()));
  std::string lines;
  for (const double tick : round_ticks(static_cast<double>(range.length()) / unit.ns, 10)) {
    const double at_x = x + tick * unit.ns / ns_per_pixel();
    lines += svg_line(at_x, top, at_x, bottom, "grid");
    lines += svg_text(at_x, bottom + 16, "small", "middle", fmt::format("{:.6g} {}", tick, unit.name));
  }
  return lines;
}

}  // namespace castor::memprof
