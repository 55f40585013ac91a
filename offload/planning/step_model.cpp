// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/step_model.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "prices.h"

namespace castor {
namespace {

constexpr int kIterations = 4;  // until what one leaves to the next no longer changes

constexpr std::uint32_t kMostAhead = 2;    // moments for which plans set room aside
constexpr std::uint32_t kFetchAhead = 16;  // moments that a fetch may start early where room is left over

constexpr std::size_t kH2d = 0, kD2h = 1, kNvmeRead = 2, kNvmeWrite = 3;
constexpr std::array<const char*, 4> kLinkNames = {"h2d", "d2h", "nvme_read", "nvme_write"};

/// Finds how early each fetch may begin.
class Scheduler {
 public:
  Scheduler(const MoveProblem& problem, const MovePlan& plan, std::uint32_t n_ahead)
      : problem_(problem), plan_(plan), n_ahead_(n_ahead), free_(problem.n_moments) {
    for (const Tier tier : {Tier::device, Tier::host})
      for (std::uint32_t m = 0; m < problem.n_moments; ++m) {
        const std::uint64_t room = std::min(problem.room_bytes[index(tier)][m], std::uint64_t{1} << 60);
        free_.add(tier, {m, 1}, static_cast<std::int64_t>(room));
      }
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
      const std::uint32_t n_early = n_early_for(id, i);
      const std::uint32_t start = (uses[next].moment + problem_.n_moments - n_early) % problem_.n_moments;
      const Places there = n_early > 0 ? stays[i].before_next : stays[next].at_use;
      if (uses[next].access != Access::overwrite && costs(stays[i].after, there))
        coming.push_back({id, stays[i].after, there, start, n_early, false, true});
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

  std::uint32_t until_next(ChunkId id, std::size_t i) const {
    const auto& uses = problem_.chunks[id].uses;
    const std::uint32_t here = uses[i].moment, next = uses[(i + 1) % uses.size()].moment;
    return next > here ? next - here : next + problem_.n_moments - here;
  }

  /// Moments before the next use at which the plan has the chunk arrive.
  std::uint32_t n_early_for(ChunkId id, std::size_t i) const {
    return std::min(problem_.n_ahead, until_next(id, i) - 1);
  }

  void occupy(ChunkId id, std::size_t i) {
    const PlannedChunk& chunk = problem_.chunks[id];
    const Stay& stay = plan_.stays[id][i];
    const std::uint32_t moment = chunk.uses[i].moment;
    const auto n_bytes = static_cast<std::int64_t>(chunk.n_bytes);
    const std::uint32_t n = problem_.n_moments, to_next = until_next(id, i), n_early = n_early_for(id, i);
    for (const Tier tier : {Tier::device, Tier::host}) {
      if (holds(stay.at_use, tier)) free_.add(tier, {moment, 1}, -n_bytes);
      if (holds(stay.after, tier)) free_.add(tier, {(moment + 1) % n, to_next - 1 - n_early}, -n_bytes);
      if (holds(stay.before_next, tier)) free_.add(tier, {(moment + to_next - n_early) % n, n_early}, -n_bytes);
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
      for (const Tier tier : {Tier::device, Tier::host})
        move.for_room = move.for_room || (new_on(tier) && free_.at(tier, before) < n_bytes);
      if (move.for_room) return;
      for (const Tier tier : {Tier::device, Tier::host})
        if (new_on(tier)) free_.add(tier, {before, 1}, -n_bytes);
      move.start = before;
      ++move.n_ahead;
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
      : problem_(problem), moves_(moves), compute_s_(compute_s), arrived_s_(2 * std::size_t{problem.n_moments}, 0) {}

  void run_iteration() {
    std::size_t next = 0;
    for (std::uint32_t m = 0; m < problem_.n_moments; ++m) {
      for (; next < moves_.size() && moves_[next].start == m; ++next) start(moves_[next]);
      const double begin_s = std::max(now_s_, arrived_s_[m]);
      wait_s_ += begin_s - now_s_;
      now_s_ = begin_s + compute_s_[m];
    }
    for (std::uint32_t m = 0; m < problem_.n_moments; ++m) {
      arrived_s_[m] = arrived_s_[m + problem_.n_moments];
      arrived_s_[m + problem_.n_moments] = 0;
    }
  }

  double now_s() const { return now_s_; }
  double wait_s() const { return wait_s_; }

 private:
  /// Takes the links one after the other, from now on.
  void start(const PlannedMove& move) {
    const Hops taken = hops(move.from, move.to);
    const auto n_bytes = static_cast<double>(problem_.chunks[move.chunk].n_bytes);
    const LinkCosts& costs = problem_.costs;
    double at_s = move.for_room ? std::max(now_s_, free_s_[kD2h]) : now_s_;
    if (taken.nvme_read) at_s = take(kNvmeRead, at_s, n_bytes * costs.nvme_read);
    if (taken.d2h) at_s = take(kD2h, at_s, n_bytes * costs.d2h);
    if (taken.h2d) at_s = take(kH2d, at_s, n_bytes * costs.h2d);
    if (taken.nvme_write) (void)take(kNvmeWrite, at_s, n_bytes * costs.nvme_write);
    if (!move.awaited) return;
    double& arrived_s = arrived_s_[std::size_t{move.start} + move.n_ahead];
    arrived_s = std::max(arrived_s, at_s);
  }

  double take(std::size_t link, double from_s, double seconds) {
    free_s_[link] = std::max(free_s_[link], from_s) + seconds;
    return free_s_[link];
  }

  const MoveProblem& problem_;
  const std::span<const PlannedMove> moves_;
  const std::span<const double> compute_s_;
  std::vector<double> arrived_s_;  ///< what each moment awaits, of this iteration and the next
  std::array<double, 4> free_s_{};
  double now_s_ = 0;
  double wait_s_ = 0;
};

void find_bound(const MoveProblem& problem, std::span<const PlannedMove> moves, StepEstimate& estimate) {
  for (const PlannedMove& move : moves) {
    const Hops taken = hops(move.from, move.to);
    const auto n_bytes = static_cast<double>(problem.chunks[move.chunk].n_bytes);
    const LinkCosts& costs = problem.costs;
    estimate.link_s[kH2d] += taken.h2d ? n_bytes * costs.h2d : 0;
    estimate.link_s[kD2h] += taken.d2h ? n_bytes * costs.d2h : 0;
    estimate.link_s[kNvmeRead] += taken.nvme_read ? n_bytes * costs.nvme_read : 0;
    estimate.link_s[kNvmeWrite] += taken.nvme_write ? n_bytes * costs.nvme_write : 0;
  }
  estimate.bound_s = estimate.compute_s;
  estimate.bound_by = "compute";
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (estimate.link_s[link] > estimate.bound_s)
      estimate.bound_s = estimate.link_s[link], estimate.bound_by = kLinkNames[link];
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
  double before_s = 0, waited_s = 0;
  for (int i = 0; i < kIterations; ++i) {
    before_s = clock.now_s();
    waited_s = clock.wait_s();
    clock.run_iteration();
  }
  estimate.step_s = clock.now_s() - before_s;
  estimate.wait_s = clock.wait_s() - waited_s;
  return estimate;
}

Result<StepPlan> plan_step(MoveProblem problem, std::span<const double> compute_s) {
  std::optional<StepPlan> best;
  for (std::uint32_t n_ahead = 0; n_ahead <= kMostAhead; ++n_ahead) {
    problem.n_ahead = n_ahead;
    auto plan = plan_moves(problem);
    if (!plan.ok() && !best) return plan.error();
    if (!plan.ok()) break;  // more room for what arrives fits even less
    StepPlan step{std::move(*plan), {}, {}, n_ahead};
    step.moves = schedule_of(problem, step.plan, kFetchAhead);
    step.estimate = estimate_step(problem, step.moves, compute_s);
    if (!best || step.estimate.step_s < best->estimate.step_s) best = std::move(step);
    if (best->estimate.wait_s == 0) break;
  }
  return std::move(*best);
}

}  // namespace castor
