// SPDX-License-Identifier: Apache-2.0
#include <castor/engine/run_forecast.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <castor/engine/engine.h>

#include "../engine_rooms.h"
#include "virtual_device.h"
#include "virtual_model.h"

namespace castor {
namespace {

/// Steps after which a training that tries shares of streams has chosen, at the latest.
constexpr int kMostSteps = 60;
/// Steps with the final settings, in which plans and what copies and updates cost one another come to agree.
constexpr int kSettlingSteps = 8;
/// Steps after these, of which the forecast is the mean: several kinds of step can follow one another in turn.
constexpr int kLastSteps = 12;

/// Differences of virtual times that rounding can make.
constexpr double kRoundingS = 1e-9;

/// The options as far as they concern a machine that is not there.
EngineOptions virtual_options(EngineOptions options) {
  options.durability = Durability::scratch;
  options.update_threads = 1;  // the team has one rate, whatever the number of its threads
  options.io_timeout = {};
  return options;
}

bool streamed(const StatePlacement& placement, PayloadId chunk) { return placement.streamed[chunk]; }
bool on_device(const StatePlacement& placement, PayloadId chunk) { return placement.states[chunk] == Tier::device; }
bool speculative(const StatePlacement& placement, PayloadId chunk) { return placement.speculative[chunk]; }

struct VirtualStep {
  StepEstimate step;
  double update_s = 0;  ///< all updates together
};

VirtualStep mean_of(const std::vector<VirtualStep>& steps) {
  VirtualStep mean;
  const auto add = [n = static_cast<double>(steps.size())](double& to, double value) { to += value / n; };
  LinkBytes moved;
  for (const VirtualStep& of : steps) {
    add(mean.step.step_s, of.step.step_s);
    add(mean.step.compute_s, of.step.compute_s);
    add(mean.step.beside_s, of.step.beside_s);
    add(mean.step.wait_s, of.step.wait_s);
    add(mean.update_s, of.update_s);
    moved += of.step.moved;
  }
  mean.step.moved = {moved.h2d / steps.size(), moved.d2h / steps.size(), moved.nvme_read / steps.size(),
                     moved.nvme_write / steps.size()};
  return mean;
}

/// An engine with its model, on a machine of virtual time.
class VirtualTraining {
 public:
  VirtualTraining(const RecordedStep& step, const EngineOptions& options, const ForecastMachine& machine)
      : step_(step),
        machine_(machine),
        options_(virtual_options(options)),
        rig_(machine),
        model_(step, rig_, machine_) {}

  Result<void> train(const castor_step_args& args);
  Forecast outcome() const;

 private:
  Result<void> run_step(const castor_step_args& args);
  const EngineRooms& rooms() const { return engine_->rooms(); }
  const StatePlacement& placement() const { return rooms().optimizer->states().placement(); }
  std::uint64_t device_peak_bytes(std::uint64_t non_model_bytes) const;
  std::uint64_t count(bool (*is)(const StatePlacement&, PayloadId)) const;

  const RecordedStep& step_;
  const ForecastMachine machine_;
  const EngineOptions options_;
  VirtualRig rig_;
  VirtualModel model_;
  std::unique_ptr<Engine> engine_;
  bool needs_norm_ = false;  ///< updates wait for it, unless they are speculative
  castor_stats stats_ = {};
  std::vector<VirtualStep> steps_;
};

Result<void> VirtualTraining::train(const castor_step_args& args) {
  needs_norm_ = args.max_norm > 0 || args.loss_scale != 1;
  CASTOR_ASSIGN(engine_, Engine::make(model_, options_, rig_.parts(!options_.nvme_folders.empty())));
  CASTOR_TRY(engine_->attach());
  for (int i = 0; i < kMostSteps && !engine_->tuned(); ++i) CASTOR_TRY(run_step(args));
  for (int i = 0; i < kSettlingSteps; ++i) CASTOR_TRY(run_step(args));
  steps_.clear();
  for (int i = 0; i < kLastSteps; ++i) CASTOR_TRY(run_step(args));
  return {};
}

Result<void> VirtualTraining::run_step(const castor_step_args& args) {
  const double start_s = rig_.now_s(), busy_s = rig_.busy_s(), team_s = rig_.team_s(), updates_s = rig_.updates_s();
  const LinkBytes moved_before = rooms().chunks->moved();
  CASTOR_TRY(model_.run(*engine_, args));
  rig_.join();
  CASTOR_ASSIGN(stats_, engine_->stats());
  StepEstimate step;
  step.step_s = rig_.now_s() - start_s;
  const double on_host_s = rig_.team_s() - team_s;
  step.beside_s = options_.overlap_updates ? on_host_s : 0;
  step.compute_s = rig_.busy_s() - busy_s + on_host_s - step.beside_s;
  const double wait_s = step.step_s - step.compute_s;
  step.wait_s = wait_s > kRoundingS ? wait_s : 0;
  step.moved = rooms().chunks->moved() - moved_before;
  rig_.end_step(step);
  steps_.push_back({step, rig_.updates_s() - updates_s});
  return {};
}

std::uint64_t VirtualTraining::count(bool (*is)(const StatePlacement&, PayloadId)) const {
  const auto chunks = rooms().layout.chunks.ids();
  return static_cast<std::uint64_t>(
      std::count_if(chunks.begin(), chunks.end(), [&](PayloadId chunk) { return is(placement(), chunk); }));
}

/// With the middle of what the allocator can hold in fragments: nothing, or all that the placement leaves to it.
std::uint64_t VirtualTraining::device_peak_bytes(std::uint64_t non_model_bytes) const {
  const std::uint64_t peak_bytes = stats_.peak_bytes[index(Tier::device)];
  if (!rooms().memory->on_gpu()) return peak_bytes;
  return std::min(rooms().options.device_budget_bytes, peak_bytes + rooms().slack_bytes(non_model_bytes) / 2);
}

Forecast VirtualTraining::outcome() const {
  Forecast made;
  std::set<std::uint64_t> sizes;
  for (const ChunkShape& chunk : rooms().layout.chunks) sizes.insert(chunk.numel * size_bytes(chunk.dtype));
  made.n_params = step_.n_params();
  made.n_chunks = rooms().layout.chunks.size();
  made.n_chunk_sizes = sizes.size();
  made.smallest_chunk_bytes = *sizes.begin(), made.largest_chunk_bytes = *sizes.rbegin();
  made.n_on_device = count(on_device), made.n_streamed = count(streamed);
  made.n_speculative = needs_norm_ ? count(speculative) : 0;
  made.speculation_bytes = needs_norm_ ? placement().speculation_bytes : 0;
  made.non_model_bytes = rooms().measures() ? rooms().watch.non_model_peak_bytes() : step_.peak_bytes();
  std::copy_n(stats_.peak_bytes, kNTiers, made.peak_bytes.begin());
  made.peak_bytes[index(Tier::device)] = device_peak_bytes(made.non_model_bytes);
  const VirtualStep mean = mean_of(steps_);
  made.step = mean.step;
  made.step.find_bound(machine_.links, mean.step.compute_s);
  made.update_s = mean.update_s;
  if (const StepPlan* const plan = rooms().scheduler->plan()) {
    made.planned_link_s = plan->plan.link_seconds;
    made.link_bound_s = plan->plan.bound_seconds;
    made.room_aside_times = plan->times;
  }
  return made;
}

}  // namespace

Result<Forecast> forecast(const RecordedStep& step, const EngineOptions& options, const ForecastMachine& machine,
                          const castor_step_args& args) {
  VirtualTraining training(step, options, machine);
  CASTOR_TRY(training.train(args));
  return training.outcome();
}

}  // namespace castor
