// SPDX-License-Identifier: Apache-2.0
// Updates before the norm is known, as if it were not too large, and what takes them back.
#include <castor/optimizer/offload_optimizer.h>

#include <algorithm>
#include <array>
#include <utility>

#include "early_updates.h"
#include "kept_chunks.h"
#include "norm_forecast.h"

namespace castor {
namespace {

/// What gradients are multiplied by where the norm is not too large.
double plain_scale(const StepOptions& options) { return 1 / options.loss_scale; }

}  // namespace

bool OffloadOptimizer::can_speculate(std::uint32_t i) const {
  return norm_forecast_->plain() && !speculated(i) && i < plan_.speculative.size() && plan_.speculative[i];
}

/// Where updates are speculative they are moments of backward. That is so in the next step if it wants a norm as the last one did.
IterationKind OffloadOptimizer::next_kind() const {
  const auto& allowed = plan_.speculative;
  const bool speculates = std::find(allowed.begin(), allowed.end(), true) != allowed.end();
  return wants_norm_ && norm_forecast_->plain() && speculates ? IterationKind::speculative : IterationKind::plain;
}

/// All that an update of the chunk writes.
std::vector<ChunkId> OffloadOptimizer::written_by_update(std::uint32_t i) const {
  std::vector<ChunkId> written = state_[i];
  written.push_back(payload_[i]);
  return written;
}

/// Where there is no room after all the chunk is left to the step.
Result<void> OffloadOptimizer::speculate(std::uint32_t i) {
  if (!kept_->open(written_by_update(i))) return {};
  speculative_.try_emplace(i);
  auto updated = update_tiles(i, announced_, plain_scale(announced_));
  if (!updated.ok()) CASTOR_TRY(take_back(i));
  return updated;
}

/// What the tile's update is about to write.
void OffloadOptimizer::keep_old(std::uint32_t i, std::uint32_t tile) {
  kept_->keep(state_[i][tile]);
  if (tile == 0) kept_->keep(payload_[i]);
}

void OffloadOptimizer::read_old_until(std::uint32_t i, std::uint32_t tile, const Event& updated) {
  kept_->read_until(state_[i][tile], updated);
  kept_->read_until(payload_[i], updated);
}

/// The norm is known. False where there were updates that counted on another, and they are taken back.
Result<bool> OffloadOptimizer::settle_speculation(const StepOptions& options, const StepScale& scale) {
  if (!options.needs_norm()) return true;
  const bool plain = !scale.skip && scale.grad_scale == plain_scale(options);
  norm_forecast_->note(plain);
  if (!plain && !speculative_.empty()) {
    CASTOR_TRY(take_back_all());
    return false;
  }
  for (auto& [i, speculation] : std::exchange(speculative_, {})) {
    kept_->drop(written_by_update(i));
    gradients_->release(i);
    early_->set_updated(i);
    begun_ = true;
    updates_.insert(updates_.end(), speculation.updates.begin(), speculation.updates.end());
  }
  return true;
}

Result<void> OffloadOptimizer::take_back_all() {
  while (!speculative_.empty()) CASTOR_TRY(take_back(speculative_.rbegin()->first));
  return {};
}

/// The chunk's states and weights are again what they were; of an update under way what has begun goes on, in memory that
/// nobody looks at.
Result<void> OffloadOptimizer::take_back(std::uint32_t i) {
  if (!speculated(i)) return {};
  forget_speculation(i);
  for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile)
    if (kept_->kept(state_[i][tile]))
      for (const Part& part : parts_of(i, tile))
        if (part.in_tensor == 0 && gradients_->has(part.tensor)) --n_updates_[part.tensor];
  for (const ChunkId id : written_by_update(i))
    if (auto taken = put_back(i, id); !taken.ok()) return poisoned_ = true, taken;
  kept_->drop(written_by_update(i));
  return {};
}

/// Of its updates what has begun runs on.
void OffloadOptimizer::forget_speculation(std::uint32_t i) {
  std::erase_if(taken_back_, [](const Event& update) { return update.ready(); });
  const auto node = speculative_.extract(i);
  const Speculation& forgotten = node.mapped();
  *forgotten.vain = true;
  taken_back_.insert(taken_back_.end(), forgotten.updates.begin(), forgotten.updates.end());
}

Result<void> OffloadOptimizer::put_back(std::uint32_t i, ChunkId id) {
  if (!kept_->kept(id)) return {};
  const std::array<Need, 1> needs = {Need{id, Tier::host, Access::update}};
  Beside others{parts_.team};
  CASTOR_TRY(parts_.scheduler.begin({MomentKind::update, i}, needs, &others));
  kept_->put_back(id);
  parts_.scheduler.end(needs);
  return {};
}

}  // namespace castor
