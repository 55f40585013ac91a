// SPDX-License-Identifier: Apache-2.0
#include <castor/offload/step_model.h>

#include <algorithm>
#include <string>

#include "room.h"

namespace castor {
namespace {

constexpr int kIterations = 4;  // until what one leaves to the next no longer changes

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

LinkBytes moved_by(const MoveProblem& problem, std::span<const PlannedMove> moves) {
  LinkBytes moved;
  for (const PlannedMove& move : moves)
    moved += bytes_over(hops(move.from, move.to), problem.chunks[move.chunk].n_bytes);
  for (const PlannedChunk& chunk : problem.chunks)
    for (const ChunkUse& use : chunk.uses) moved.d2h += use.arriving_bytes;
  return moved;
}

}  // namespace

void StepEstimate::find_bound(const LinkCosts& costs, double busy_s) {
  link_s = seconds_of(moved, costs);
  bound_s = busy_s;
  bound_by = "compute";
  for (std::size_t link = 0; link < kLinkNames.size(); ++link)
    if (link_s[link] > bound_s) bound_s = link_s[link], bound_by = kLinkNames[link];
  const double drive_s = costs.nvme_share * (link_s[kNvmeRead] + link_s[kNvmeWrite]);
  if (drive_s > bound_s) bound_s = drive_s, bound_by = "nvme";
}

StepEstimate estimate_step(const MoveProblem& problem, std::span<const PlannedMove> moves,
                           std::span<const double> compute_s) {
  if (compute_s.size() != problem.n_moments)
    throw ContractViolation("estimate_step: seconds of " + std::to_string(compute_s.size()) + " moments");
  StepEstimate estimate;
  for (const double seconds : compute_s) estimate.compute_s += seconds;
  estimate.moved = moved_by(problem, moves);
  estimate.find_bound(problem.costs, estimate.compute_s);
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

}  // namespace castor
