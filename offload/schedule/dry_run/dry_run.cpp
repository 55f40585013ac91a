// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/dry_run.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <castor/schedule/virtual_machine.h>
#include <castor/schedule/virtual_team.h>

namespace castor {
namespace {

constexpr int kMostDrySteps = 4;
constexpr double kSame = 0.01;  // share of a step by which two may differ

struct Arrival {
  Need need;
  std::uint64_t n_bytes = 0;
};

/// The accesses and the work of one moment.
struct Happening {
  std::vector<Need> needs;        ///< from its begin on
  std::vector<Arrival> arrivals;  ///< at its end
  std::vector<ChunkId> drops;     ///< after it
  bool on_device = false;         ///< the compute stream runs it
  bool beside = false;            ///< the team runs it
  bool joins = false;             ///< the thread waits for the compute stream
};

std::vector<Happening> happenings_of(const MoveProblem& problem) {
  std::vector<Happening> found(problem.n_moments);
  for (std::size_t m = 0; m < problem.beside.size(); ++m) found[m].beside = problem.beside[m];
  for (std::size_t m = 0; m < problem.joins.size(); ++m) found[m].joins = problem.joins[m];
  for (const ChunkId id : problem.chunks.ids())
    for (const ChunkUse& use : problem.chunks[id].uses) {
      Happening& moment = found[use.moment];
      const Need need = {id, use.tier, use.access};
      const bool arrives = use.arriving_bytes > 0;
      if (arrives)
        moment.arrivals.push_back({need, use.arriving_bytes});
      else
        moment.needs.push_back(need);
      if (use.dropped) moment.drops.push_back(id);
      moment.on_device = moment.on_device || use.tier == Tier::device || arrives;
    }
  return found;
}

Moment moment_at(std::uint32_t position, const Happening& what) {
  return {.kind = what.joins ? MomentKind::norm : MomentKind::forward, .id = position, .beside = what.beside};
}

/// The trace that the scheduler will record.
AccessTrace trace_of(const std::vector<Happening>& happenings) {
  AccessTrace trace;
  for (std::uint32_t m = 0; m < happenings.size(); ++m) {
    trace.add(moment_at(m, happenings[m]), happenings[m].needs);
    for (const Arrival& arrival : happenings[m].arrivals) {
      trace.add_need(arrival.need);
      trace.add_arrival(arrival.need.chunk, arrival.n_bytes);
    }
    for (const ChunkId id : happenings[m].drops) trace.drop(id);
  }
  return trace;
}

/// By moment that runs beside the thread: the first position, in this iteration or the next, that needs on the device a
/// chunk that the moment changes.
std::vector<std::uint64_t> urgency_of(const MoveProblem& problem, const std::vector<Happening>& happenings) {
  IndexedVector<ChunkId, std::uint64_t> first_need(problem.chunks.size(), AccessTrace::kNever);
  for (const ChunkId id : problem.chunks.ids())
    for (const ChunkUse& use : problem.chunks[id].uses)
      if (use.tier == Tier::device) first_need[id] = std::min<std::uint64_t>(first_need[id], use.moment);
  std::vector<std::uint64_t> urgency(happenings.size(), AccessTrace::kNever);
  for (std::size_t m = 0; m < happenings.size(); ++m)
    for (const Need& need : happenings[m].needs)
      if (need.access != Access::read) urgency[m] = std::min(urgency[m], first_need[need.chunk]);
  return urgency;
}

/// The tier's budget. It is the same at all moments.
std::uint64_t room_of(const MoveProblem& problem, Tier tier) {
  const auto& room = problem.room_bytes[index(tier)];
  return *std::min_element(room.begin(), room.end());
}

}  // namespace

struct DryRun::World {
  World(const MoveProblem& problem, const MomentSeconds& seconds);

  Result<void> put_chunks(const StepPlan& plan);
  Result<void> put(ChunkId id, Places places);
  Result<void> run_moment(std::uint32_t position);
  Result<void> arrive(const Arrival& arrival);
  double busy_seconds(bool Happening::*where) const;

  const MomentSeconds seconds;
  const std::vector<Happening> happenings;
  const std::vector<std::uint64_t> urgency;  ///< urgency_of, by moment
  VirtualMachine machine;
  VirtualTeam team{machine.clock};
  Result<void> began;  ///< the outcome of put_chunks
};

DryRun::World::World(const MoveProblem& problem, const MomentSeconds& of_moments)
    : seconds(of_moments),
      happenings(happenings_of(problem)),
      urgency(urgency_of(problem, happenings)),
      machine(problem.costs, {.device_bytes = room_of(problem, Tier::device),
                              .host_bytes = room_of(problem, Tier::host),
                              .nvme = problem.nvme}) {
  for (const ChunkId id : problem.chunks.ids()) {
    (void)machine.chunks.add(ChunkKind::payload, problem.chunks[id].n_bytes, "chunk " + std::to_string(number(id)));
    machine.mover.planned().set_rest(id, problem.chunks[id].rest);
  }
}

/// Chunks that are on NVMe alone are put first, because they pass through the host.
Result<void> DryRun::World::put_chunks(const StepPlan& plan) {
  for (const bool spilled : {true, false})
    for (const ChunkId id : machine.chunks.ids()) {
      const auto& stays = plan.plan.stays.at(id);
      const Places places = stays.empty() ? kNowhere : stays.back().after;
      if (places != kNowhere && (places == only(Tier::nvme)) == spilled) CASTOR_TRY(put(id, places));
    }
  return {};
}

Result<void> DryRun::World::put(ChunkId id, Places places) {
  const Tier first = holds(places, Tier::device) && !holds(places, Tier::host) ? Tier::device : Tier::host;
  CASTOR_TRY(machine.mover.open(id, first));
  machine.chunks.written(id, first);
  if (holds(places, Tier::nvme) && first == Tier::host) {
    CASTOR_TRY(machine.chunks.release(id, Tier::host));
    if (holds(places, Tier::host)) CASTOR_TRY(machine.chunks.fetch(id, Tier::host));
  }
  if (holds(places, Tier::device) && first == Tier::host) CASTOR_TRY(machine.chunks.fetch(id, Tier::device));
  return {};
}

Result<void> DryRun::World::run_moment(std::uint32_t position) {
  const Happening& moment = happenings[position];
  if (moment.joins) return machine.scheduler.join(moment_at(position, moment));
  Beside others{team};
  CASTOR_TRY(machine.scheduler.begin(moment_at(position, moment), moment.needs, moment.beside ? &others : nullptr));
  if (moment.on_device) machine.compute.run(seconds.compute[position]);
  Event updated;
  if (moment.beside) updated = team.add(urgency[position], others.after, seconds.compute[position]);
  machine.clock.pass(seconds.thread[position]);
  for (const Arrival& arrival : moment.arrivals) CASTOR_TRY(arrive(arrival));
  machine.scheduler.end(moment.needs, updated);
  for (const ChunkId id : moment.drops) CASTOR_TRY(machine.mover.discard(id));
  return {};
}

Result<void> DryRun::World::arrive(const Arrival& arrival) {
  const auto [chunk, tier, access] = arrival.need;
  CASTOR_TRY(machine.mover.edit(chunk, tier));
  CASTOR_TRY(machine.down.wait(machine.compute.record()));
  machine.mover.arriving(chunk, tier, arrival.n_bytes, machine.down.copy(nullptr, nullptr, arrival.n_bytes));
  return {};
}

/// Seconds of the moments for which `where` is true.
double DryRun::World::busy_seconds(bool Happening::*where) const {
  double sum_s = 0;
  for (std::size_t m = 0; m < happenings.size(); ++m) sum_s += happenings[m].*where ? seconds.compute[m] : 0;
  return sum_s;
}

DryRun::DryRun(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan)
    : world_(std::make_unique<World>(problem, seconds)) {
  world_->began = world_->put_chunks(plan);
  world_->machine.scheduler.expect(trace_of(world_->happenings), plan);
}

DryRun::~DryRun() = default;

Result<StepEstimate> DryRun::step() {
  World& world = *world_;
  CASTOR_TRY(world.began);
  const LinkBytes moved_before = world.machine.chunks.moved();
  const double start_s = world.machine.clock.now_s();
  for (VirtualTier* tier : {&world.machine.device, &world.machine.host}) tier->memory.count_anew();
  for (std::uint32_t m = 0; m < world.happenings.size(); ++m) CASTOR_TRY(world.run_moment(m));
  CASTOR_TRY(world.machine.compute.synchronize());
  world.machine.scheduler.end_iteration();

  const auto sum = [](const std::vector<double>& all) { return std::accumulate(all.begin(), all.end(), 0.0); };
  StepEstimate estimate;
  estimate.step_s = world.machine.clock.now_s() - start_s;
  estimate.beside_s = world.busy_seconds(&Happening::beside);
  estimate.compute_s = sum(world.seconds.compute) - estimate.beside_s;
  estimate.wait_s = std::max(0.0, estimate.step_s - estimate.compute_s);
  estimate.moved = world.machine.chunks.moved() - moved_before;
  estimate.find_bound(world.machine.costs,
                      std::max(world.busy_seconds(&Happening::on_device), sum(world.seconds.thread)));
  return estimate;
}

DryRun::PoolUse DryRun::pool_use(Tier tier) const {
  const VirtualTier& of = tier == Tier::device ? world_->machine.device : world_->machine.host;
  return {.peak_taken_bytes = of.budget.peak_bytes(),
          .peak_in_use_bytes = of.pool.peak_in_use_bytes(),
          .fresh_bytes = of.memory.fresh_bytes(),
          .exchanged_bytes = of.memory.exchanged_bytes()};
}

Result<StepEstimate> dry_run(const MoveProblem& problem, const MomentSeconds& seconds, const StepPlan& plan) {
  DryRun run(problem, seconds, plan);
  CASTOR_ASSIGN(StepEstimate step, run.step());
  for (int i = 1; i < kMostDrySteps; ++i) {
    const double before_s = step.step_s;
    CASTOR_ASSIGN(step, run.step());
    if (std::abs(step.step_s - before_s) <= kSame * step.step_s) break;
  }
  return step;
}

}  // namespace castor
