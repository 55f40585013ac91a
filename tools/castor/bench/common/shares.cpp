// SPDX-License-Identifier: Apache-2.0
#include "shares.h"

#include <algorithm>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/memory/statistics.h>

namespace castor::bench {
namespace {

template <typename Figure>
std::vector<double> figures(const std::vector<Round>& rounds, Figure figure) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(figure(round));
  return values;
}

double quotient(const Sample& part, const Sample& whole) {
  return whole.gb_per_s() > 0 ? part.gb_per_s() / whole.gb_per_s() : 0;
}

}  // namespace

double Sample::cpu_s_per_gib() const {
  return n_bytes == 0 ? 0 : cpu_s / (static_cast<double>(n_bytes) / static_cast<double>(kGiB));
}

double median(std::vector<double> values) { return values.empty() ? 0 : castor::median(std::move(values)); }

bool Shares::reaches(double wanted) const {
  return share && *share >= wanted * ceiling_ratio.value_or(1) && !above_ceiling();
}

Shares summarize(const std::vector<Round>& rounds) {
  Shares all;
  all.ours = median(figures(rounds, [](const Round& round) { return round.ours.gb_per_s(); }));
  all.ours_cpu_s_per_gib = median(figures(rounds, [](const Round& round) { return round.ours.cpu_s_per_gib(); }));
  const auto has_both = [](const Round& round) { return round.ceiling && round.ceiling_again; };
  if (rounds.empty() || !std::all_of(rounds.begin(), rounds.end(), has_both)) return all;
  all.ceiling = median(figures(rounds, [](const Round& round) { return round.ceiling->gb_per_s(); }));
  all.ceiling_cpu_s_per_gib =
      median(figures(rounds, [](const Round& round) { return round.ceiling->cpu_s_per_gib(); }));
  const auto shares = figures(rounds, [](const Round& round) { return quotient(round.ours, *round.ceiling); });
  all.share = median(shares);
  all.share_min = *std::min_element(shares.begin(), shares.end());
  all.share_max = *std::max_element(shares.begin(), shares.end());
  all.ceiling_ratio =
      median(figures(rounds, [](const Round& round) { return quotient(*round.ceiling_again, *round.ceiling); }));
  return all;
}

}  // namespace castor::bench
