// SPDX-License-Identifier: Apache-2.0
#include <castor/schedule/virtual_team.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace castor {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

class EndOfJob final : public EventState {
 public:
  EndOfJob(std::shared_ptr<VirtualTeam::World> world, std::shared_ptr<const VirtualTeam::Job> job)
      : world_(std::move(world)), job_(std::move(job)) {}

  /// Jobs that are added later cannot change which jobs have ended by now.
  bool ready() const override {
    if (!job_->ended()) world_->work(world_->clock.now_s(), nullptr);
    return job_->ended() && job_->ended_s <= world_->clock.now_s();
  }
  /// No job is added while the thread waits.
  Result<void> wait() const override {
    if (!job_->ended()) world_->work(kForever, job_.get());
    world_->clock.wait_until(job_->ended_s);
    return {};
  }
  bool wait_for(std::chrono::nanoseconds) const override {
    if (!job_->ended()) world_->work(world_->clock.next_end_s(), job_.get());
    world_->clock.wait_until(std::min(job_->ended() ? job_->ended_s : kForever, world_->clock.next_end_s()));
    return ready();
  }
  const std::shared_ptr<const VirtualTeam::Job>& job() const { return job_; }

 private:
  const std::shared_ptr<VirtualTeam::World> world_;
  const std::shared_ptr<const VirtualTeam::Job> job_;
};

bool can_begin(const VirtualTeam::Job& job, double now_s) {
  return job.from_s <= now_s &&
         std::all_of(job.after.begin(), job.after.end(), [](const auto& other) { return other->ended(); });
}

}  // namespace

std::shared_ptr<VirtualTeam::Job> VirtualTeam::World::most_urgent() const {
  const auto found = std::find_if(jobs.begin(), jobs.end(), [this](const auto& job) { return can_begin(*job, now_s); });
  return found != jobs.end() ? *found : nullptr;
}

/// The earliest begin after now among the jobs; infinity where there is none.
double VirtualTeam::World::next_start_s() const {
  double next_s = kForever;
  for (const auto& job : jobs)
    if (job->from_s > now_s) next_s = std::min(next_s, job->from_s);
  return next_s;
}

void VirtualTeam::World::work(double until_s, const Job* job) {
  while (now_s < until_s && !jobs.empty() && (job == nullptr || !job->ended())) {
    const double next_s = std::min(until_s, next_start_s());
    const auto best = most_urgent();
    if (!best) {
      now_s = next_s;
      continue;
    }
    const double worked_s = std::min(best->left_s, next_s - now_s);
    now_s += worked_s;
    best->left_s -= worked_s;
    if (best->left_s > 0) continue;
    best->ended_s = now_s;
    clock.note_end(now_s);
    best->after.clear();
    std::erase(jobs, best);
  }
  if (jobs.empty() && until_s < kForever) now_s = std::max(now_s, until_s);
}

Event VirtualTeam::add(std::uint64_t urgency, std::span<const Event> after, double seconds) {
  world_->work(world_->clock.now_s(), nullptr);
  auto job = std::make_shared<Job>();
  job->urgency = urgency, job->number = n_added_++;
  job->from_s = world_->clock.now_s();
  for (const Event& event : after) {
    if (const auto* point = dynamic_cast<const VirtualPoint*>(event.state()))
      job->from_s = std::max(job->from_s, point->at_s());
    else if (const auto* end = dynamic_cast<const EndOfJob*>(event.state()))
      job->after.push_back(end->job());
  }
  job->left_s = seconds;
  added_s_ += seconds;
  const auto before = [](const auto& a, const auto& b) {
    return std::pair(a->urgency, a->number) < std::pair(b->urgency, b->number);
  };
  world_->jobs.insert(std::upper_bound(world_->jobs.begin(), world_->jobs.end(), job, before), job);
  return Event(std::make_shared<EndOfJob>(world_, job));
}

double VirtualTeam::busy_until_s() const {
  world_->work(world_->clock.now_s(), nullptr);
  double until_s = std::max(world_->now_s, world_->clock.now_s());
  for (const auto& job : world_->jobs) until_s += job->left_s;
  return until_s;
}

std::unique_ptr<StreamTime> VirtualTeam::time() { return std::make_unique<VirtualTime>(added_s_); }

}  // namespace castor
