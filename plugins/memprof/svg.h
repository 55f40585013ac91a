// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ranges.h"

namespace castor::memprof {

/// The width of every picture, and the left edge and width of its time axis.
inline constexpr double kWidth = 1200, kLeft = 116, kPlotWidth = 780;

/// `text` for the content or an attribute of an element, in HTML, SVG and XML alike; characters that these cannot hold
/// become blanks.
std::string escape(std::string_view text);

/// Multiples of 1, 2 or 5 times a power of ten from 0 to `length`, at most `n_most` + 1 of them. Requires: both > 0.
std::vector<double> round_ticks(double length, std::size_t n_most);

/// The same for bytes, in multiples of a power of two.
std::vector<std::uint64_t> round_byte_ticks(std::uint64_t n_bytes, std::size_t n_most);

/// `512 KiB`, `3 GiB`: a tick's label, without superfluous digits.
std::string tick_bytes(std::uint64_t n_bytes);

/// `1.25 s`, `12.5 ms`, `830 µs`.
std::string format_time(std::int64_t ns);

/// The colours and fonts of every picture, for light and dark pages: a `<style>` element.
std::string svg_style();

/// A picture `width` by `height` with its own style; `label` is the text for screen readers.
std::string svg_document(double width, double height, std::string_view label, const std::string& body);

/// Elements; `look` is a class of svg_style(). `title` (none if "") is shown as a tooltip; `covered` is the opacity of
/// the box.
struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};
std::string svg_rect(const Box& box, std::string_view look, std::string_view title = "", double covered = 1);
std::string svg_line(double x1, double y1, double x2, double y2, std::string_view look);
/// `anchor` is the end of the text at `x`: start, middle or end.
std::string svg_text(double x, double y, std::string_view look, std::string_view anchor, std::string_view text);

/// Time from left to right.
struct TimeAxis {
  Range range;
  double x = 0, width = 0;
  double at(std::int64_t t_ns) const;
  double ns_per_pixel() const { return static_cast<double>(range.length()) / width; }
  /// Vertical lines at round times from `top` to `bottom`, labelled below with the time since the start of `range`.
  std::string grid(double top, double bottom) const;
};

}  // namespace castor::memprof
