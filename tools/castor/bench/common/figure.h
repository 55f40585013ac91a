// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "shares.h"

namespace castor::bench {

/// The unit of a figure: bytes for GB/s, or parameters, each of which takes `bytes` bytes.
struct Unit {
  const char* name = "GB/s";
  double bytes = 1;  ///< bytes of a Sample that count as one unit
};

/// One measured case and the ceiling or rival it is compared with.
struct Figure {
  std::string name;
  Unit unit;
  std::string ceiling_name;  ///< empty if there is none
  double wanted_share = 0;   ///< 0 = no bar is promised
  /// The case is compared with another method, which may be slower; otherwise a share above 1.03 means a bad
  /// measurement.
  bool rival = false;
  std::vector<Round> rounds;
};

/// The median share is at least the wanted one and the ceiling was not measured badly.
bool reaches_bar(const Figure& figure);
/// The share is above 1.03 of a ceiling, so the ceiling was measured badly.
bool badly_measured(const Figure& figure);

/// An entry of `results` in the JSON of `castor bench`; rates are 10^9 units per second, `min` and `max` are the least
/// and the largest share of a round.
nlohmann::json figure_json(const Figure& figure);

/// The head of the table and one line per figure.
std::string figures_head();
std::string figure_line(const Figure& figure);

/// The summary below the table: each bar that was missed, each ceiling that was measured badly, and how many bars were
/// reached.
std::vector<std::string> figures_verdict(const std::vector<Figure>& figures);

}  // namespace castor::bench
