// SPDX-License-Identifier: Apache-2.0
// Where the states lie and where they are updated, and what of that is tried while the training runs.
#include "gemini_strategy.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <castor/memory/bytes.h>
#include <castor/states/model_chunks.h>
#include <castor/plan/stream_share.h>

namespace castor {
namespace {

std::string streams_kept(const StreamTrial::Tried& best, double without_s) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%.0f %% of the optimizer states that are kept off the GPU come to it for their updates: %.3f s a step "
                "instead of %.3f",
                100 * best.share, best.step_s, without_s);
  return text;
}

std::string threads_kept(const ThreadTrial& trial) {
  char text[160];
  std::snprintf(text, sizeof text, "%u of %u threads update during backward: %.3f s a step instead of %.3f",
                trial.best_threads(), trial.all_threads(), trial.best_s(), trial.with_all_s());
  return text;
}

}  // namespace

bool GeminiStrategy::measures() const {
  return memory_->on_gpu() && options_.placement_policy != PlacementPolicy::constant;
}

LargestUnit GeminiStrategy::largest_unit() const {
  LargestUnit largest;
  for (std::size_t unit = 0; unit < needs_.size(); ++unit) {
    std::uint64_t n_bytes = 0;
    for (const Need& need : needs_[unit]) n_bytes += chunks_->chunk(need.chunk).n_bytes;
    if (n_bytes > largest.payload_bytes) largest = {model_.unit_names[unit], n_bytes};
  }
  return largest;
}

PlacementRequest GeminiStrategy::placement_request() const {
  PlacementRequest request;
  request.chunks = demands_of(layout_, options_.format);
  request.largest_unit = largest_unit_;
  request.device_budget_bytes = options_.device_budget_bytes;
  request.host_budget_bytes = options_.host_budget_bytes;
  request.nvme = memory_->spill() != nullptr;
  request.nvme_fraction = options_.nvme_offload_fraction;
  request.policy = options_.placement_policy;
  request.offload_param_fraction = options_.offload_param_frac;
  request.offload_optim_fraction = options_.offload_optim_frac;
  request.stream_fraction = options_.stream_optim_frac.value_or(0);
  const bool speculates = options_.speculative_updates.value_or(memory_->on_gpu()) && options_.overlap_updates;
  request.speculation_bytes = speculates ? memory_->speculation_bytes() : 0;
  if (request.policy == PlacementPolicy::constant && options_.const_device_bytes < options_.device_budget_bytes) {
    request.device_budget_bytes = options_.const_device_bytes;
    request.device_budget_name = "const_device_bytes";
  }
  return request;
}

Result<void> GeminiStrategy::attach() {
  PlacementRequest request = placement_request();
  if (request.policy == PlacementPolicy::constant) {
    memory_->device_chunks().set_limit(request.device_budget_bytes);
  } else if (memory_->on_gpu()) {
    // Warm-up: nothing is known yet of activations, so nothing but the largest unit's parameters (and those of its
    // successor) may stay.
    request.policy = PlacementPolicy::cpu;
    request.stream_fraction = 0;
    memory_->device_chunks().set_limit(
        std::min(options_.device_budget_bytes, 2 * request.largest_unit.payload_bytes + kMaxChunkBytes));
  }
  CASTOR_ASSIGN(Plan plan, plan_placement(request));
  memory_->check_host(host_, plan.host_bytes);
  CASTOR_TRY(optimizer_->adopt(std::move(plan)));
  if (!commits_ || !commits_->step()) CASTOR_TRY(fill());  // else perhaps nobody wants first values
  watch_.look();
  sample();
  return {};
}

/// After the warm-up step on a GPU: gives the chunks what is left beside activations and workspaces, and places the states
/// again, beside the activations that are chunks too where they fit: the plan may still take those off the device.
Result<void> GeminiStrategy::plan_again() {
  const std::uint64_t budget_bytes = options_.device_budget_bytes;
  const std::uint64_t non_model_bytes = watch_.non_model_peak_bytes();
  kept_bytes_ = activations_->peak_bytes();
  std::uint64_t taken_bytes = non_model_bytes + allocator_slack_bytes(budget_bytes, non_model_bytes, kept_bytes_);
  taken_bytes += padding_bytes(slots_, memory_->pages(), budget_bytes - std::min(budget_bytes, taken_bytes));
  memory_->device_chunks().set_limit(
      std::max(budget_bytes - std::min(budget_bytes, taken_bytes),
               working_bytes(largest_unit_.payload_bytes, activations_->largest_bytes())));
  placed_ = placement_request();
  placed_.non_model_bytes = taken_bytes;
  return place();
}

Result<void> GeminiStrategy::place() {
  CASTOR_ASSIGN(Plan plan, plan_placement_beside(placed_, kept_bytes_));
  return optimizer_->adopt(std::move(plan));
}

/// On a GPU, after a step: which share of the states shall come to it for their updates.
Result<void> GeminiStrategy::try_streams() {
  if (!measures() || options_.stream_optim_frac || !options_.overlap_updates) return {};
  stream_trial_.note_step(timeline_.now_ns());
  if (stream_trial_.over() || !knows_share()) return {};
  if (!stream_trial_.begun()) {
    scheduler_->settle_times();
    without_streams_ = scheduler_->trace();
    placed_.may_speculate = optimizer_->states().placement().speculative;  // else steps would not go as forecast
  }
  const double share = stream_trial_.begun() ? stream_trial_.judge() : stream_trial_.begin(modelled_share());
  if (stream_trial_.over() && share > 0) {
    const std::string kept = streams_kept(stream_trial_.best(), stream_trial_.without().step_s);
    host_.log(host_.self, CASTOR_LOG_INFO, kept.c_str());
  }
  if (share == placed_.stream_fraction) return {};
  placed_.stream_fraction = share;
  CASTOR_TRY(place());
  scheduler_->expect(optimizer_->forecast(without_streams_));
  as_forecast_ = true;
  return {};
}

/// What steps take with the share in use: when it is planned with their times, or as soon as they went as was forecast.
bool GeminiStrategy::knows_share() {
  as_forecast_ = as_forecast_ && scheduler_->plan() != nullptr;
  return scheduler_->timed() || (as_forecast_ && stream_trial_.settled());
}

/// On a GPU, after a step, once it is known which share of the states comes to it: how many threads update during backward.
void GeminiStrategy::try_threads() {
  const bool shares_known = options_.stream_optim_frac || stream_trial_.over();
  if (!measures() || !options_.overlap_updates || !shares_known || thread_trial_.over() || !scheduler_->timed()) return;
  thread_trial_.note_step(timeline_.now_ns());
  if (!thread_trial_.over() || thread_trial_.best_threads() == thread_trial_.all_threads()) return;
  host_.log(host_.self, CASTOR_LOG_INFO, threads_kept(thread_trial_).c_str());
}

double GeminiStrategy::modelled_share() const {
  scheduler_->plan_now();
  const StepPlan* const step = scheduler_->plan();
  if (step == nullptr) return 0;
  std::uint64_t state_bytes = 0;
  for (std::size_t i = 0; i < placed_.chunks.size(); ++i)
    state_bytes += optimizer_->states().placement().update_tier(i) == Tier::host ? placed_.chunks[i].state_bytes : 0;
  const AccessTrace& trace = scheduler_->trace();
  const UpdateLoad load = update_load(trace, trace.seconds(), step->estimate, memory_->link_costs(), state_bytes);
  return stream_share(load, stream_trial_.step_s());
}

/// The step that takes the memory lasts as long as it takes to pin it.
void GeminiStrategy::tell_speculation() const {
  const std::uint64_t n_bytes = optimizer_->states().placement().speculation_bytes;
  if (n_bytes == 0) return;
  const std::string taken =
      format_bytes(n_bytes) +
      " more of the host are taken, once, for updates that begin before the norm of the gradients "
      "is known; speculative_updates=off takes none";
  host_.log(host_.self, CASTOR_LOG_INFO, taken.c_str());
}

}  // namespace castor
