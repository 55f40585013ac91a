// SPDX-License-Identifier: Apache-2.0
// How StatefulTensorMgr makes a plan of the trace, and carries it out.
#include <castor/mover/stateful_tensor_mgr.h>

#include <algorithm>
#include <utility>

#include <castor/plan/move_planner.h>

#include "iteration_follower.h"
#include "plan_replay.h"

namespace castor {

/// What it wanted is not carried on.
void StatefulTensorMgr::drop_plan() {
  course_->replay.reset();
  going_.clear();
  fetches_.clear();
}

void StatefulTensorMgr::forget_trace() {
  for (Course& course : courses_) {
    course.follower->forget();
    course.replay.reset();
    course.planned_once = course.plan_tried = course.plan_due = false;
  }
  drop_plan();
  turn();
}

/// Into the way that was taken for the next iteration.
void StatefulTensorMgr::turn() {
  Course* const next = &courses_[static_cast<std::size_t>(next_way_)];
  if (std::exchange(course_, next) != next && course_->replay) settle_in();
}

void StatefulTensorMgr::expect(AccessTrace trace, StepPlan plan) {
  expect(std::move(trace));
  course_->plan_due = false, course_->plan_tried = true;
  carry_out(problem(), std::move(plan));
}

void StatefulTensorMgr::expect(AccessTrace trace) {
  forget_trace();
  follower().expect(std::move(trace));
  course_->planned_once = course_->plan_due = true;
}

const StepPlan* StatefulTensorMgr::plan() {
  follower().take_times();
  course_->plan_due = course_->plan_due || (course_->replay && follower().timed_for_good());
  make_plan_if_due();
  return course_->replay ? &course_->replay->plan() : nullptr;
}

std::vector<std::uint64_t> StatefulTensorMgr::chunk_bytes() const {
  std::vector<std::uint64_t> n_bytes;
  for (ChunkId id = 0; id < chunks_.n_chunks(); ++id) n_bytes.push_back(chunks_.chunk(id).n_bytes);
  return n_bytes;
}

MoveProblem StatefulTensorMgr::problem() const {
  MoveProblem problem = problem_of(trace(), chunk_bytes());
  for (const Tier tier : {Tier::device, Tier::host})
    problem.room_bytes[index(tier)].assign(problem.n_moments, budget(tier).limit_bytes());
  for (ChunkId id = 0; id < rest_.size(); ++id) problem.chunks[id].rest = rest_[id];
  for (ChunkId id = 0; id < chunks_.n_chunks(); ++id)
    if (problem.chunks[id].uses.empty() && !chunks_.chunk(id).has_contents()) problem.chunks[id].rest = kNowhere;
  problem.costs = costs_;
  problem.nvme = chunks_.has_spill();
  return problem;
}

/// Plans the iteration of trace(). Where none is found that fits, everything comes when it is needed.
void StatefulTensorMgr::make_plan_if_due() {
  if (!std::exchange(course_->plan_due, false)) return;
  course_->planned_once = course_->plan_tried = true;
  if (follower().trace().empty()) return;
  follower().pause();
  const MoveProblem problem = this->problem();
  if (auto plan = plan_step(problem, trace().seconds()); plan.ok()) carry_out(problem, std::move(*plan));
  follower().go_on();
}

void StatefulTensorMgr::carry_out(const MoveProblem& problem, StepPlan plan) {
  course_->replay = std::make_unique<PlanReplay>(problem, std::move(plan));
  settle_in();
}

/// Where the plan in force wants chunks between two iterations. What the one before has left elsewhere comes when it is needed,
/// and goes when its room is.
void StatefulTensorMgr::settle_in() {
  going_.clear();
  wanted_.assign(chunks_.n_chunks(), kAnywhere);
  const auto& stays = course_->replay->plan().plan.stays;
  for (ChunkId id = 0; id < stays.size(); ++id)
    if (!stays[id].empty()) wanted_[id] = stays[id].back().after;
}

/// Where chunks shall be from the moment at `position` on, and what shall come.
void StatefulTensorMgr::take_over_plan(std::uint64_t position) {
  if (!course_->replay || !steady()) return going_.clear();
  const auto go = [this](ChunkId id, Places places) {
    wanted_[id] = places;
    if (std::find(going_.begin(), going_.end(), id) == going_.end()) going_.push_back(id);
  };
  for (const auto& rest : course_->replay->leaving(position)) go(rest.chunk, rest.places);
  for (const auto& use : course_->replay->used(position)) {
    wanted_[use.chunk] = use.places;
    std::erase(going_, use.chunk);
  }
  for (const PlannedMove& move : course_->replay->coming(position)) {
    go(move.chunk, move.to);
    fetches_.push_back(move);
  }
}

/// Lets go what shall be elsewhere and can go by now, but not to `full`, where somebody waits for room.
void StatefulTensorMgr::send_on(std::optional<Tier> full) {
  std::erase_if(going_, [&](ChunkId id) { return let_go_of(id, wanted_[id], full); });
}

/// Brings the chunk to `stay` (up, where the plan parks it in room that the device has over) and takes it from the tiers
/// beside, as far as that needs no waiting; true where nothing is left to do. What stays behind gives way when its room
/// is wanted.
bool StatefulTensorMgr::let_go_of(ChunkId id, Places stay, std::optional<Tier> full) {
  const Chunk& chunk = chunks_.chunk(id);
  if (chunk.pinned() || !chunk.has_contents() || stay == kNowhere) return true;
  const bool goes_up = holds(stay, Tier::device) && !chunk.resident(Tier::device) && chunk.resident(Tier::host);
  if (goes_up && full != Tier::device && chunk.at(Tier::host).arrived.ready()) (void)chunks_.fetch(id, Tier::device);
  const bool leaves_device = chunk.resident(Tier::device) && !holds(stay, Tier::device);
  const bool wants_host = (holds(stay, Tier::host) || leaves_device) && chunk.resident(Tier::device);
  if (wants_host && full != Tier::host && !chunk.clean(Tier::device)) (void)chunks_.fetch(id, Tier::host);
  if (leaves_device && chunk.clean(Tier::device)) (void)chunks_.release(id, Tier::device);
  const bool leaves_host =
      chunk.resident(Tier::host) && !holds(stay, Tier::host) && (chunk.clean(Tier::host) || holds(stay, Tier::nvme));
  if (leaves_host && chunk.at(Tier::host).arrived.ready()) (void)chunks_.release(id, Tier::host);
  const auto left_in = [&](Tier tier) { return chunk.resident(tier) && !holds(stay, tier); };
  const bool came_up = !holds(stay, Tier::device) || chunk.resident(Tier::device);
  return came_up && !left_in(Tier::device) && !left_in(Tier::host);
}

/// What makes room and takes no waiting, while the thread waits for something else.
Result<void> StatefulTensorMgr::carry_on() {
  for (const Tier tier : {Tier::device, Tier::host}) CASTOR_TRY(chunks_.reap(tier));
  send_on();
  return {};
}

/// Starts the fetches that are due, in their order, as far as there is room; the others stay for the next moment.
Result<void> StatefulTensorMgr::start_fetches() {
  std::array<bool, 2> full = {false, false};
  for (std::size_t n_left = fetches_.size(); n_left > 0; --n_left) {
    const PlannedMove move = fetches_.front();
    fetches_.pop_front();
    const Tier tier = holds(move.to, Tier::device) && !holds(move.from, Tier::device) ? Tier::device : Tier::host;
    if (!full[index(tier)]) {
      CASTOR_ASSIGN(const bool started, start_fetch(move.chunk, tier));
      full[index(tier)] = !started;
    }
    const Chunk& chunk = chunks_.chunk(move.chunk);
    if (!chunk.resident(tier) && chunk.has_contents()) fetches_.push_back(move);
  }
  return {};
}

/// Starts one hop of a fetch if that takes no waiting; false where there is no room for it.
Result<bool> StatefulTensorMgr::start_fetch(ChunkId id, Tier tier) {
  const Chunk& chunk = chunks_.chunk(id);
  if (chunk.at(tier).current || chunk.pinned() || !chunk.has_contents()) return true;
  const Tier below = tier == Tier::device ? Tier::host : Tier::nvme;
  if (!chunk.resident(below) && !(tier == Tier::host && chunk.resident(Tier::device)))
    return start_fetch(id, Tier::host);
  if (tier == Tier::device && !chunk.at(Tier::host).arrived.ready()) return true;  // its first hop is under way
  while (true) {
    auto fetched = chunks_.fetch(id, tier);
    if (fetched.ok()) return true;
    if (fetched.error().kind != ErrorKind::does_not_fit) return fetched.error();
    CASTOR_ASSIGN(const std::uint64_t freed_bytes, chunks_.reap(tier));
    if (freed_bytes == 0) return false;
  }
}

}  // namespace castor
