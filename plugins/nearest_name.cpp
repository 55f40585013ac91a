// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/nearest_name.h>

#include <algorithm>
#include <vector>

namespace castor {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> names) {
  std::optional<std::string> nearest;
  std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) best = distance, nearest = candidate;
  }
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  const auto nearest = nearest_name(name, names);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace castor
