// SPDX-License-Identifier: Apache-2.0
#include "figure.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace castor::bench {
namespace {

using cli::or_null;
using nlohmann::json;

double rate_of(const Sample& sample, const Unit& unit) { return sample.gb_per_s() / unit.bytes; }

json rate_or_null(const std::optional<Sample>& sample, const Unit& unit) {
  return sample ? json(rate_of(*sample, unit)) : json();
}

/// The rate of every run: Castor's and both of the ceiling.
json runs_json(const Figure& figure) {
  json ours = json::array(), ceilings = json::array(), again = json::array();
  for (const Round& round : figure.rounds) {
    ours.push_back(rate_of(round.ours, figure.unit));
    ceilings.push_back(rate_or_null(round.ceiling, figure.unit));
    again.push_back(rate_or_null(round.ceiling_again, figure.unit));
  }
  return {{"values", ours}, {"ceilings", ceilings}, {"ceilings_again", again}};
}

const char* mark_of(const Figure& figure) {
  if (badly_measured(figure)) return "?";
  if (figure.wanted_share == 0) return " ";
  return reaches_bar(figure) ? "✓" : "✗";
}

std::string judge(const Figure& figure) {
  const Shares shares = summarize(figure.rounds);
  if (badly_measured(figure))
    return fmt::format(
        "{}: {:.3f} of {} is impossible, so the ceiling was measured badly: measure again, with longer runs",
        figure.name, *shares.share, figure.ceiling_name);
  if (!shares.share || reaches_bar(figure)) return "";
  return fmt::format("{}: {:.3f} of {}, less than the wanted {:.2f}", figure.name, *shares.share, figure.ceiling_name,
                     figure.wanted_share);
}

}  // namespace

bool badly_measured(const Figure& figure) { return !figure.rival && summarize(figure.rounds).above_ceiling(); }

bool reaches_bar(const Figure& figure) {
  const Shares shares = summarize(figure.rounds);
  return shares.share && *shares.share >= figure.wanted_share && !badly_measured(figure);
}

nlohmann::json figure_json(const Figure& figure) {
  const Shares shares = summarize(figure.rounds);
  json object = runs_json(figure);
  object.update({{"name", figure.name},
                 {"value", shares.ours / figure.unit.bytes},
                 {"unit", figure.unit.name},
                 {"ceiling", shares.ceiling ? json(*shares.ceiling / figure.unit.bytes) : json()},
                 {"ceiling_name", shares.ceiling ? json(figure.ceiling_name) : json()},
                 {"share", or_null(shares.share)},
                 {"min", or_null(shares.share_min)},
                 {"max", or_null(shares.share_max)},
                 {"runs", figure.rounds.size()},
                 {"ceiling_ratio", or_null(shares.ceiling_ratio)},
                 {"wanted_share", figure.wanted_share},
                 {"badly_measured", badly_measured(figure)},
                 {"reached", shares.share ? json(reaches_bar(figure)) : json()}});
  return object;
}

std::string figures_head() {
  return fmt::format("{:<42} {:>7} {:>8} {:<8}  {:>6}   {:<9}  {:>6}  {}", "", "castor", "ceiling", "", "share",
                     "spread", "c'/c", "ceiling");
}

std::string figure_line(const Figure& figure) {
  const Shares shares = summarize(figure.rounds);
  const std::string rate = fmt::format("{:<42} {:>7.2f}", figure.name, shares.ours / figure.unit.bytes);
  if (!shares.share) return fmt::format("{} {:>8} {}", rate, "-", figure.unit.name);
  return fmt::format("{} {:>8.2f} {:<8}  {:6.3f} {} {:.2f}–{:.2f}  {:6.2f}  {}", rate,
                     *shares.ceiling / figure.unit.bytes, figure.unit.name, *shares.share, mark_of(figure),
                     *shares.share_min, *shares.share_max, *shares.ceiling_ratio, figure.ceiling_name);
}

std::vector<std::string> figures_verdict(const std::vector<Figure>& figures) {
  std::vector<std::string> lines;
  std::size_t n_wanted = 0, n_reached = 0;
  for (const Figure& figure : figures) {
    if (std::string line = judge(figure); !line.empty()) lines.push_back(std::move(line));
    const bool has_bar = figure.wanted_share > 0 && summarize(figure.rounds).share;
    n_wanted += has_bar;
    n_reached += has_bar && reaches_bar(figure);
  }
  if (n_wanted > 0) lines.push_back(fmt::format("{} of {} cases reach the share that is wanted", n_reached, n_wanted));
  return lines;
}

}  // namespace castor::bench
