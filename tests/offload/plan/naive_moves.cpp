// SPDX-License-Identifier: Apache-2.0
#include "naive_moves.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace castor::test {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// Bytes per moment, by device and host.
using Usage = std::array<std::vector<std::uint64_t>, 2>;

struct Way {
  double seconds = 0;
  Usage used;
};

void occupy(Usage& used, Places places, std::uint32_t from, std::uint32_t n_moments_after, std::uint64_t n_bytes) {
  for (std::uint32_t k = 0; k < n_moments_after; ++k)
    for (const std::size_t tier : {0, 1})
      if ((places >> tier & 1) != 0) used[tier][(from + k) % used[tier].size()] += n_bytes;
}

bool within(const Usage& used, const MoveProblem& problem) {
  for (const std::size_t tier : {0, 1})
    for (std::uint32_t m = 0; m < problem.n_moments; ++m)
      if (used[tier][m] > problem.room_bytes[tier][m]) return false;
  return true;
}

std::uint32_t moments_until(const MoveProblem& problem, std::uint32_t from, std::uint32_t to) {
  return to > from ? to - from : to + problem.n_moments - from;
}

/// The room and the cost of a chunk that is in `stays` around its uses; kImpossible where it cannot be.
Way walk(const MoveProblem& problem, const PlannedChunk& chunk, const std::vector<Stay>& stays) {
  Way way;
  for (auto& used : way.used) used.assign(problem.n_moments, 0);
  if (chunk.uses.empty()) {
    occupy(way.used, stays.at(0).after, 0, problem.n_moments, chunk.n_bytes);
    if ((stays.at(0).after == kNowhere) != (chunk.rest == kNowhere) || (stays[0].after & ~chunk.rest) != 0)
      way.seconds = kImpossible;
    return way;
  }
  const auto n_bytes = static_cast<double>(chunk.n_bytes);
  for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
    const std::size_t next = (i + 1) % chunk.uses.size();
    const auto& use = chunk.uses[i];
    const auto& stay = stays.at(i);
    const Places needed = use.tier == Tier::device ? kOnDevice : kOnHost;
    const Stay& previous = stays.at((i + chunk.uses.size() - 1) % chunk.uses.size());
    const bool changes = use.access != Access::read;
    const auto stale = static_cast<Places>(previous.before_next & ~kOnNvme);
    if (changes ? stay.at_use != (needed | stale) : (stay.at_use & needed) == 0) way.seconds = kImpossible;
    const Places current = changes ? needed : stay.at_use;
    const std::uint32_t apart = moments_until(problem, use.moment, chunk.uses[next].moment);
    const std::uint32_t n_ahead = std::min(chunk.uses[next].n_ahead, apart - 1);
    const std::uint32_t n_at_use = 1 + std::min(use.n_behind, apart - 1 - n_ahead);
    occupy(way.used, stay.at_use, use.moment, n_at_use, chunk.n_bytes);
    occupy(way.used, stay.after, use.moment + n_at_use, apart - n_at_use - n_ahead, chunk.n_bytes);
    occupy(way.used, stay.before_next, use.moment + apart - n_ahead, n_ahead, chunk.n_bytes);
    way.seconds += n_bytes * naive_step_seconds(current, stay.after, problem.costs);
    way.seconds += n_bytes * naive_step_seconds(stay.after, stay.before_next, problem.costs);
    const Places rest = apart <= problem.n_together ? Places{kOnDevice | kOnHost | kOnNvme} : chunk.rest;
    if ((stay.after & ~rest) != 0) way.seconds = kImpossible;
    if (!use.dropped && (stay.after == kNowhere || stay.before_next == kNowhere)) way.seconds = kImpossible;
    if (chunk.uses[next].access == Access::overwrite) continue;
    const Places needed_next = chunk.uses[next].tier == Tier::device ? kOnDevice : kOnHost;
    if (n_ahead > 0 && (stay.before_next & needed_next) == 0) way.seconds = kImpossible;
    if ((stay.before_next & ~(rest | needed_next)) != 0) way.seconds = kImpossible;
    const bool next_changes = chunk.uses[next].access != Access::read;
    const Places there = next_changes ? stay.before_next | needed_next : stays[next].at_use;
    way.seconds += n_bytes * naive_step_seconds(stay.before_next, there, problem.costs);
  }
  return way;
}

/// The least cost of ways that fit together, one of each list.
void choose(const MoveProblem& problem, const std::vector<std::vector<Way>>& ways, std::size_t chunk, Usage& used,
            double seconds, std::optional<double>& least) {
  if (least && seconds >= *least) return;
  if (chunk == ways.size()) {
    least = seconds;
    return;
  }
  for (const Way& way : ways[chunk]) {
    Usage with = used;
    for (const std::size_t tier : {0, 1})
      for (std::uint32_t m = 0; m < problem.n_moments; ++m) with[tier][m] += way.used[tier][m];
    if (within(with, problem)) choose(problem, ways, chunk + 1, with, seconds + way.seconds, least);
  }
}

std::optional<double> least_of(const MoveProblem& problem, const std::vector<std::vector<Way>>& ways) {
  Usage used;
  for (auto& moments : used) moments.assign(problem.n_moments, 0);
  std::optional<double> least;
  choose(problem, ways, 0, used, 0, least);
  return least;
}

/// Runs the iteration twice; the chunk is dropped after use `i` where bit i of `dropped` is set. The second run counts.
Way walk_two_tiers(const MoveProblem& problem, const PlannedChunk& chunk, std::uint32_t dropped) {
  Way way;
  bool on_device = false, on_host = true;
  for (int round = 0; round < 2; ++round) {
    way = {};
    for (auto& used : way.used) used.assign(problem.n_moments, 0);
    for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
      const auto& use = chunk.uses[i];
      const auto& next = chunk.uses[(i + 1) % chunk.uses.size()];
      const auto n_bytes = static_cast<double>(chunk.n_bytes);
      if (!on_device && use.access != Access::overwrite) way.seconds += n_bytes * problem.costs.h2d;
      on_device = true;
      if (use.access != Access::read) on_host = false;
      occupy(way.used, kOnDevice, use.moment, 1, chunk.n_bytes);
      if ((dropped >> i & 1) == 0) {
        occupy(way.used, kOnDevice, use.moment + 1, moments_until(problem, use.moment, next.moment) - 1, chunk.n_bytes);
        continue;
      }
      on_device = false;
      if (use.dropped) continue;
      if (!on_host) way.seconds += n_bytes * problem.costs.d2h;
      on_host = true;
    }
  }
  return way;
}

}  // namespace

double naive_step_seconds(Places from, Places to, const LinkCosts& costs) {
  std::array<double, 8> least{};
  least.fill(kImpossible);
  least[from] = 0;
  std::array<bool, 8> done{};
  while (true) {
    int nearest = -1;
    for (int set = 0; set < 8; ++set)
      if (!done[set] && least[set] < kImpossible && (nearest < 0 || least[set] < least[nearest])) nearest = set;
    if (nearest < 0) return least[to];
    done[nearest] = true;
    const auto reach = [&](int set, double seconds) { least[set] = std::min(least[set], least[nearest] + seconds); };
    if ((nearest & kOnHost) != 0) reach(nearest | kOnDevice, costs.h2d);
    if ((nearest & kOnDevice) != 0) reach(nearest | kOnHost, costs.d2h);
    if ((nearest & kOnNvme) != 0) reach(nearest | kOnHost, costs.nvme_read);
    if ((nearest & kOnHost) != 0) reach(nearest | kOnNvme, costs.nvme_write);
    for (const int tier : {kOnDevice, kOnHost, kOnNvme}) reach(nearest & ~tier, 0);
  }
}

double naive_plan_seconds(const MoveProblem& problem, const MovePlan& plan) {
  Usage used;
  for (auto& moments : used) moments.assign(problem.n_moments, 0);
  double seconds = 0;
  for (const ChunkId id : problem.chunks.ids()) {
    const Way way = walk(problem, problem.chunks[id], plan.stays.at(id));
    seconds += way.seconds;
    for (const std::size_t tier : {0, 1})
      for (std::uint32_t m = 0; m < problem.n_moments; ++m) used[tier][m] += way.used[tier][m];
  }
  return within(used, problem) ? seconds : kImpossible;
}

std::optional<double> least_seconds_of_two_tiers(const MoveProblem& problem) {
  std::vector<std::vector<Way>> ways;
  for (const PlannedChunk& chunk : problem.chunks) {
    auto& of_chunk = ways.emplace_back();
    std::uint32_t must_go = 0;  // after these uses
    for (std::size_t i = 0; i < chunk.uses.size(); ++i) {
      const std::uint32_t next = chunk.uses[(i + 1) % chunk.uses.size()].moment;
      if ((chunk.rest & kOnDevice) == 0 && moments_until(problem, chunk.uses[i].moment, next) > problem.n_together)
        must_go |= 1U << i;
    }
    for (std::uint32_t dropped = 0; dropped < 1U << chunk.uses.size(); ++dropped)
      if ((dropped & must_go) == must_go) of_chunk.push_back(walk_two_tiers(problem, chunk, dropped));
  }
  return least_of(problem, ways);
}

std::optional<double> least_seconds_of_three_tiers(const MoveProblem& problem) {
  std::vector<std::vector<Way>> ways;
  for (const PlannedChunk& chunk : problem.chunks) {
    std::map<Usage, double> least;  // cost of the ways that take the same room
    const std::size_t n_stays = std::max<std::size_t>(chunk.uses.size(), 1);
    std::vector<Stay> stays(n_stays);
    for (std::uint64_t number = 0; number < std::uint64_t{1} << (6 * n_stays); ++number) {
      for (std::size_t i = 0; i < n_stays; ++i)
        stays[i] = {static_cast<Places>(number >> (6 * i) & 7), static_cast<Places>(number >> (6 * i + 3) & 7),
                    static_cast<Places>(number >> (6 * i + 3) & 7)};
      const bool below = std::any_of(stays.begin(), stays.end(),
                                     [](const Stay& stay) { return ((stay.at_use | stay.after) & kOnNvme) != 0; });
      const Way way = walk(problem, chunk, stays);
      if (way.seconds == kImpossible || (below && !problem.nvme)) continue;
      const auto found = least.emplace(way.used, way.seconds).first;
      found->second = std::min(found->second, way.seconds);
    }
    auto& of_chunk = ways.emplace_back();
    for (const auto& [used, seconds] : least) of_chunk.push_back({seconds, used});
  }
  return least_of(problem, ways);
}

MoveProblem random_problem(std::mt19937_64& random, const RandomSizes& sizes) {
  const auto up_to = [&random](std::uint64_t n) { return random() % (n + 1); };
  const auto n_chunks = 1 + up_to(sizes.most_chunks - 1);
  const auto n_uses = 4 + up_to(sizes.most_uses - 4);
  MoveProblem problem;
  problem.n_moments = static_cast<std::uint32_t>(2 + up_to(sizes.most_moments - 2));
  const std::array<std::uint64_t, 3> n_bytes = {1 + up_to(3), 2 + up_to(5), 4};
  for (std::uint64_t i = 0; i < n_chunks; ++i) problem.chunks.push_back({n_bytes[up_to(2)], {}});
  for (std::uint64_t i = 0; i < n_uses; ++i) {
    auto& uses = problem.chunks[id_at<ChunkId>(up_to(n_chunks - 1))].uses;
    const auto moment = static_cast<std::uint32_t>(up_to(problem.n_moments - 1));
    const auto place = std::lower_bound(uses.begin(), uses.end(), moment,
                                        [](const ChunkUse& use, std::uint32_t m) { return use.moment < m; });
    if (place != uses.end() && place->moment == moment) continue;
    const auto kind = up_to(5);
    const Access access = kind == 0 ? Access::overwrite : kind <= 2 ? Access::update : Access::read;
    uses.insert(place, {moment, Tier::device, access});
  }
  for (auto& chunk : problem.chunks) {
    auto& uses = chunk.uses;
    for (std::size_t i = 0; i < uses.size(); ++i)
      uses[i].dropped = uses[(i + 1) % uses.size()].access == Access::overwrite && up_to(1) == 1;
  }
  return problem;
}

}  // namespace castor::test
