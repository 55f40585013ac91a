// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "shares.h"

namespace castor::bench {

/// What a figure is counted in: bytes for GB/s, bytes that each parameter takes for parameters.
struct Unit {
  const char* name = "GB/s";
  double bytes = 1;  ///< those of a Sample that count as one
};

/// One measured case beside what it is held against.
struct Figure {
  std::string name;
  Unit unit;
  std::string ceiling_name;  ///< empty where there is none
  double wanted_share = 0;   ///< 0 = nothing was promised
  /// Held against another way to the same, which may be slower; else a share above 1.03 cannot be, and is no success.
  bool rival = false;
  std::vector<Round> rounds;
};

/// The median of the shares is at least what is wanted, and one that can be believed.
bool reaches_bar(const Figure& figure);
/// The ceiling was measured badly.
bool badly_measured(const Figure& figure);

/// An entry of `results` in the JSON of `castor bench`; rates are 10^9 of the unit per second, `min` and `max` are those
/// of the share, round by round.
nlohmann::json figure_json(const Figure& figure);

/// The head of the table and one line per figure.
std::string figures_head();
std::string figure_line(const Figure& figure);

/// What the table means: each bar that was missed, each ceiling that was measured badly, and how many were reached.
std::vector<std::string> figures_verdict(const std::vector<Figure>& figures);

}  // namespace castor::bench
