// SPDX-License-Identifier: Apache-2.0
#include <castor/plan/step_plan.h>

#include <algorithm>

#include "room.h"

namespace castor {
namespace {

/// Finds the earliest start of each fetch.
class Scheduler {
 public:
  Scheduler(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead)
      : problem_(problem), plan_(plan), n_ahead_(n_ahead), free_(room_of(problem)) {
    for_each_use([this](ChunkId id, std::size_t i) { occupy(id, i); });
  }

  std::vector<PlannedMove> moves() {
    std::vector<PlannedMove> leaving, coming;
    for_each_use([&](ChunkId id, std::size_t i) {
      const auto& uses = problem_.chunks[id].uses;
      const auto& stays = plan_.stays[id];
      const std::size_t next = (i + 1) % uses.size();
      const Places left = uses[i].access == Access::read ? stays[i].at_use : only(uses[i].tier);
      if (costs(left, stays[i].after))
        leaving.push_back({id, left, stays[i].after, (uses[i].moment + 1) % problem_.n_moments});
      const Periods early = time_of_stay(problem_, problem_.chunks[id], i).before_next;
      const auto made = static_cast<Places>(stays[i].before_next & ~stays[i].after);
      const Places there = early.count > 0 ? stays[i].before_next : stays[next].at_use | made;
      const bool overwritten = uses[next].access == Access::overwrite;
      if (overwritten && costs(stays[i].after, stays[i].before_next))
        leaving.push_back({id, stays[i].after, stays[i].before_next, early.first});
      if (!overwritten && costs(stays[i].after, there))
        coming.push_back({id, stays[i].after, there, early.first, early.count, 0, true});
    });
    const auto by_start = [](const PlannedMove& a, const PlannedMove& b) { return a.start < b.start; };
    std::stable_sort(coming.begin(), coming.end(), by_start);
    for (PlannedMove& move : coming) bring_forward(move);
    leaving.insert(leaving.end(), coming.begin(), coming.end());
    std::stable_sort(leaving.begin(), leaving.end(), by_start);
    return leaving;
  }

 private:
  static bool costs(Places from, Places to) { return hops(from, to) != Hops(); }

  template <typename Each>
  void for_each_use(const Each& each) const {
    for (const ChunkId id : problem_.chunks.ids())
      for (std::size_t i = 0; i < problem_.chunks[id].uses.size(); ++i) each(id, i);
  }

  void occupy(ChunkId id, std::size_t i) {
    const PlannedChunk& chunk = problem_.chunks[id];
    const Stay& stay = plan_.stays[id][i];
    const TimeOfStay time = time_of_stay(problem_, chunk, i);
    const auto n_bytes = static_cast<std::int64_t>(chunk.n_bytes);
    for (const Tier tier : kLimitedTiers) {
      if (holds(stay.at_use, tier)) free_.add(tier, time.at_use, -n_bytes);
      if (holds(stay.after, tier)) free_.add(tier, time.after, -n_bytes);
      if (holds(stay.before_next, tier)) free_.add(tier, time.before_next, -n_bytes);
    }
  }

  /// Starts `move` earlier as long as its copies have room, but not before the last use of its chunk has ended.
  void bring_forward(PlannedMove& move) {
    const PlannedChunk& chunk = problem_.chunks[move.chunk];
    const auto n_bytes = static_cast<std::int64_t>(chunk.n_bytes);
    const auto new_on = [&](Tier tier) { return holds(move.to, tier) && !holds(move.from, tier); };
    const std::uint32_t use = (move.start + move.n_ahead) % problem_.n_moments;
    const std::uint32_t most = std::min(n_ahead_, since_last_use(chunk, use) - 1);
    while (move.n_ahead < most) {
      const std::uint32_t before = (move.start + problem_.n_moments - 1) % problem_.n_moments;
      for (const Tier tier : kLimitedTiers)
        if (new_on(tier) && free_.at(tier, before) < n_bytes) return;
      for (const Tier tier : kLimitedTiers)
        if (new_on(tier)) free_.add(tier, {before, 1}, -n_bytes);
      move.start = before;
      ++move.n_ahead, ++move.n_early;
    }
  }

  std::uint32_t since_last_use(const PlannedChunk& chunk, std::uint32_t moment) const {
    std::uint32_t least = problem_.n_moments;
    for (const ChunkUse& use : chunk.uses)
      if (use.moment != moment)
        least = std::min(least, (moment + problem_.n_moments - use.moment) % problem_.n_moments);
    return least;
  }

  const MoveProblem& problem_;
  const MovePlan& plan_;
  const std::uint32_t n_ahead_;
  Room free_;  ///< left by the plan and the fetches that start earlier so far
};

}  // namespace

std::vector<PlannedMove> schedule_of(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead) {
  return Scheduler(problem, plan, n_ahead).moves();
}

}  // namespace castor
