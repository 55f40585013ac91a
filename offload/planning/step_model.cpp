// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/step_model.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "room.h"

namespace castor {
namespace {

constexpr int kIterations = 4;  // until what one leaves to the next no longer changes

constexpr double kTimesTried[] = {0, 0.25, 1};  // of what a move takes, for which plans set room aside
constexpr double kPauses = 0.001;               // of the busiest lane, that no other plan is tried for

/// Finds how early each fetch may begin.
class Scheduler {
 public:
  Scheduler(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead)
      : problem_(problem), plan_(plan), n_ahead_(n_ahead), free_(problem) {
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
        coming.push_back({id, stays[i].after, there, early.first, early.count, false, 0, true});
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
    for (ChunkId id = 0; id < problem_.chunks.size(); ++id)
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

  /// Starts `move` earlier as long as its copies have room, but not before its chunk's last use has ended.
  void bring_forward(PlannedMove& move) {
    const PlannedChunk& chunk = problem_.chunks[move.chunk];
    const auto n_bytes = static_cast<std::int64_t>(chunk.n_bytes);
    const auto new_on = [&](Tier tier) { return holds(move.to, tier) && !holds(move.from, tier); };
    const std::uint32_t use = (move.start + move.n_ahead) % problem_.n_moments;
    const std::uint32_t most = std::min(n_ahead_, since_last_use(chunk, use) - 1);
    while (move.n_ahead < most) {
      const std::uint32_t before = (move.start + problem_.n_moments - 1) % problem_.n_moments;
      for (const Tier tier : kLimitedTiers)
        move.for_room = move.for_room || (new_on(tier) && free_.at(tier, before) < n_bytes);
      if (move.for_room) return;
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
  Room free_;  ///< beside the plan and the fetches brought forward so far
};

/// The lanes and the time until which each is taken.
class StepClock {
 public:
  StepClock(const MoveProblem& problem, std::span<const PlannedMove> moves, std::span<const double> compute_s)
      : problem_(problem),
        moves_(moves),
        compute_s_(compute_s),
        arrived_s_(2 * std::size_t{problem.n_moments}, 0),
        arrivals_(problem.n_moments) {
    for (const PlannedChunk& chunk : problem.chunks)
      for (std::size_t i = 0; i < chunk.uses.size(); ++i)
        if (chunk.uses[i].arriving_bytes > 0) add_arrival(chunk, i);
  }

  void run_iteration() {
    std::size_t next = 0;
    for (std::uint32_t m = 0; m < problem_.n_moments; ++m) {
      for (; next < moves_.size() && moves_[next].start == m; ++next) start(moves_[next]);
      const double begin_s = std::max(now_s_, arrived_s_[m]);
      now_s_ = begin_s + compute_s_[m];
      for (const Arrival& arrival : arrivals_[m])
        await(m + arrival.until_next_use, take(kD2h, now_s_, arrival.seconds));
    }
    for (std::uint32_t m = 0; m < problem_.n_moments; ++m) {
      arrived_s_[m] = arrived_s_[m + problem_.n_moments];
      arrived_s_[m + problem_.n_moments] = 0;
    }
  }

  double now_s() const { return now_s_; }

 private:
  /// Takes the links one after the other, from now on.
  void start(const PlannedMove& move) {
    const Hops taken = hops(move.from, move.to);
    const LinkSeconds seconds = seconds_of(bytes_over(taken, problem_.chunks[move.chunk].n_bytes), problem_.costs);
    double at_s = move.for_room ? std::max({now_s_, free_s_[kD2h], taken.nvme_read ? free_s_[kNvmeWrite] : 0}) : now_s_;
    if (taken.nvme_read) at_s = take(kNvmeRead, at_s, seconds[kNvmeRead]);
    if (taken.d2h) at_s = take(kD2h, at_s, seconds[kD2h]);
    if (taken.h2d) at_s = take(kH2d, at_s, seconds[kH2d]);
    if (taken.nvme_write) (void)take(kNvmeWrite, at_s, seconds[kNvmeWrite]);
    if (move.awaited) await(move.start + move.n_ahead, at_s);
  }

  void await(std::uint32_t moment, double seconds) { arrived_s_[moment] = std::max(arrived_s_[moment], seconds); }

  void add_arrival(const PlannedChunk& chunk, std::size_t use) {
    const TimeOfStay time = time_of_stay(problem_, chunk, use);
    arrivals_[time.at_use.first].push_back(
        {time.until_next_use(), static_cast<double>(chunk.uses[use].arriving_bytes) * problem_.costs.d2h});
  }

  /// When `seconds` on `link` have passed; on NVMe both links share one drive.
  double take(std::size_t link, double from_s, double seconds) {
    free_s_[link] = std::max(free_s_[link], from_s) + seconds;
    if (link != kNvmeRead && link != kNvmeWrite) return free_s_[link];
    drive_free_s_ = std::max(drive_free_s_, from_s) + problem_.costs.nvme_share * seconds;
    return std::max(free_s_[link], drive_free_s_);
  }

  /// Bytes that come from the device whatever the plan.
  struct Arrival {
    std::uint32_t until_next_use = 0;
    double seconds = 0;
  };

  const MoveProblem& problem_;
  const std::span<const PlannedMove> moves_;
  const std::span<const double> compute_s_;
  std::vector<double> arrived_s_;               ///< what each moment awaits, of this iteration and the next
  std::vector<std::vector<Arrival>> arrivals_;  ///< by moment
  LinkSeconds free_s_{};
  double drive_free_s_ = 0;
  double now_s_ = 0;
};

void find_bound(const MoveProblem& problem, std::span<const PlannedMove> moves, StepEstimate& estimate) {
  for (const PlannedMove& move : moves)
    estimate.moved += bytes_over(hops(move.from, move.to), problem.chunks[move.chunk].n_bytes);
  for (const PlannedChunk& chunk : problem.chunks)
    for (const ChunkUse& use : chunk.uses) estimate.moved.d2h += use.arriving_bytes;
  estimate.link_s = seconds_of(estimate.moved, problem.costs);
  estimate.bound_s = estimate.compute_s;
  estimate.bound_by = "compute";
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (estimate.link_s[link] > estimate.bound_s)
      estimate.bound_s = estimate.link_s[link], estimate.bound_by = kLinkNames[link];
  const double drive_s = problem.costs.nvme_share * (estimate.link_s[kNvmeRead] + estimate.link_s[kNvmeWrite]);
  if (drive_s > estimate.bound_s) estimate.bound_s = drive_s, estimate.bound_by = "nvme";
}

/// Fetches that start before the plan sets room aside for them take it from then on.
void count_early(const MoveProblem& problem, std::span<const PlannedMove> moves, MovePlan& plan) {
  for (const PlannedMove& move : moves)
    for (const Tier tier : kLimitedTiers)
      for (std::uint32_t k = 0; k < move.n_early && holds(move.to, tier) && !holds(move.from, tier); ++k)
        plan.used_bytes[index(tier)][(move.start + k) % problem.n_moments] += problem.chunks[move.chunk].n_bytes;
}

/// The moments from `moment` on, it left out, that take `seconds` together: forward in steps of 1, back in steps of -1. At
/// least one where that is more than nothing.
std::uint32_t moments_within(std::span<const double> compute_s, std::uint32_t moment, int step, double seconds) {
  const auto n = static_cast<std::int64_t>(compute_s.size());
  std::uint32_t count = 0;
  for (std::int64_t m = moment; seconds > 0 && count < kFetchAhead; ++count) {
    m = (m + step + n) % n;
    seconds -= compute_s[static_cast<std::size_t>(m)];
  }
  return count;
}

/// Sets room aside for what comes to its uses, and on the host above NVMe for what they have changed and may go below:
/// `times` as long as it takes alone.
void set_room_aside(MoveProblem& problem, std::span<const double> compute_s, double times) {
  const LinkCosts& costs = problem.costs;
  for (PlannedChunk& chunk : problem.chunks)
    for (ChunkUse& use : chunk.uses) {
      const bool below = problem.nvme && use.tier == Tier::host;
      const double come_s = use.tier == Tier::device ? costs.h2d : below ? costs.nvme_read : costs.d2h;
      const double go_s = below && use.access != Access::read ? costs.nvme_write : 0;
      const double scale = times * static_cast<double>(chunk.n_bytes);
      use.n_ahead = moments_within(compute_s, use.moment, -1, use.access == Access::overwrite ? 0 : scale * come_s);
      use.n_behind = moments_within(compute_s, use.moment, 1, scale * go_s);
    }
}

}  // namespace

std::vector<PlannedMove> schedule_of(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead) {
  return Scheduler(problem, plan, n_ahead).moves();
}

StepEstimate estimate_step(const MoveProblem& problem, std::span<const PlannedMove> moves,
                           std::span<const double> compute_s) {
  if (compute_s.size() != problem.n_moments)
    throw ContractViolation("estimate_step: seconds of " + std::to_string(compute_s.size()) + " moments");
  StepEstimate estimate;
  for (const double seconds : compute_s) estimate.compute_s += seconds;
  find_bound(problem, moves, estimate);
  StepClock clock(problem, moves, compute_s);
  double before_s = 0;
  for (int i = 0; i < kIterations; ++i) {
    before_s = clock.now_s();
    clock.run_iteration();
  }
  // What nobody waits for may end after the step, but not later and later: then room would run out.
  estimate.step_s = std::max(clock.now_s() - before_s, estimate.bound_s);
  estimate.wait_s = estimate.step_s - estimate.compute_s;
  return estimate;
}

Result<StepPlan> plan_step(MoveProblem problem, std::span<const double> compute_s) {
  problem.n_together = kFetchAhead;  // what leaves for less would be fetched again at once
  std::optional<StepPlan> best;
  for (const double times : kTimesTried) {
    set_room_aside(problem, compute_s, times);
    auto plan = plan_moves(problem);
    if (!plan.ok() && !best) return plan.error();
    if (!plan.ok()) break;  // more room for what arrives fits even less
    StepPlan step{std::move(*plan), {}, {}, times};
    step.moves = schedule_of(problem, step.plan, kFetchAhead);
    count_early(problem, step.moves, step.plan);
    step.estimate = estimate_step(problem, step.moves, compute_s);
    if (!best || step.estimate.step_s < best->estimate.step_s) best = std::move(step);
    const bool busy = best->estimate.step_s <= best->estimate.bound_s * (1 + kPauses);
    if (busy) break;  // its busiest lane hardly pauses, and with more room for what arrives no less moves
  }
  return std::move(*best);
}

}  // namespace castor
