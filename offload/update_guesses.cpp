// SPDX-License-Identifier: Apache-2.0
// Updates before the norm is known, as if it were not too large, and what takes them back.
#include <castor/offload/offload_optimizer.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "early_updates.h"
#include "tile_undo.h"

namespace castor {
namespace {

/// What gradients are multiplied by where the norm is not too large.
double plain_scale(const StepOptions& options) { return 1 / options.loss_scale; }

}  // namespace

/// On the host, beside the thread, by gradients that are all there and will be measured by the time of the step.
bool OffloadOptimizer::can_guess(std::uint32_t i) const {
  const bool has_room = i < plan_.guessed.size() && plan_.guessed[i];
  const bool guessed = std::find(guesses_.begin(), guesses_.end(), i) != guesses_.end();
  return expects_plain_ && has_room && !guessed && parts_.overlap && plan_.states[i] == Tier::host &&
         update_tier(i) == Tier::host && gradients_->complete(i) && measured(i);
}

/// Where there is no room after all the chunk is left to the step.
Result<void> OffloadOptimizer::guess(std::uint32_t i) {
  if (!open_undo(i)) return {};
  guesses_.push_back(i);
  auto updated = update_tiles(i, announced_, plain_scale(announced_), /*guess=*/true);
  if (!updated.ok()) CASTOR_TRY(take_back(i));
  return updated;
}

/// They stay in host memory until the norm is known.
bool OffloadOptimizer::open_undo(std::uint32_t i) {
  const ChunkShape& shape = parts_.layout.chunks[i];
  undo_.resize(n_chunks());
  for (std::uint32_t tile = static_cast<std::uint32_t>(undo_[i].size()); tile < shape.n_tiles(); ++tile)
    undo_[i].push_back(
        parts_.chunks.add(ChunkKind::undo, TileUndo::bytes(shape.tile(tile).numel, shape.dtype, parts_.format),
                          parts_.chunks.chunk(state_[i][tile]).label + ", before an update that may be taken back"));
  for (std::uint32_t tile = 0; tile < shape.n_tiles(); ++tile) {
    const bool opened = parts_.chunks.open(undo_[i][tile], Tier::host).ok();
    if (opened) parts_.chunks.pin(undo_[i][tile], Tier::host);
    if (!opened) return drop_undo(i), false;
  }
  return true;
}

void OffloadOptimizer::drop_undo(std::uint32_t i) {
  for (const ChunkId undo : undo_[i]) {
    if (!parts_.chunks.chunk(undo).pinned()) continue;
    parts_.chunks.unpin(undo, Tier::host);
    parts_.chunks.discard(undo);
  }
}

/// Requires: states and weights are on the host.
TileUndo OffloadOptimizer::undo_of(std::uint32_t i, std::uint32_t tile) const {
  const auto data = [this](ChunkId id) { return parts_.chunks.chunk(id).at(Tier::host).buffer.data(); };
  const ChunkShape& shape = parts_.layout.chunks[i];
  const auto [first, numel] = shape.tile(tile);
  return {{data(state_[i][tile]), data(payload_[i]) + first * size_bytes(shape.dtype), data(undo_[i][tile])},
          numel,
          shape.dtype,
          parts_.format};
}

/// The norm is known.
Result<void> OffloadOptimizer::settle_guesses(const StepOptions& options, const StepScale& scale) {
  if (!options.needs_norm()) return {};
  expects_plain_ = !scale.skip && scale.grad_scale == plain_scale(options);
  if (!expects_plain_) return take_back_guesses();
  for (const std::uint32_t i : std::exchange(guesses_, {})) {
    drop_undo(i);
    gradients_->release(i);
    early_->set_updated(i);
    begun_ = true;
  }
  return {};
}

Result<void> OffloadOptimizer::take_back_guesses() {
  while (!guesses_.empty()) CASTOR_TRY(take_back(guesses_.back()));
  return {};
}

/// The chunk's states and weights are again what they were, or will be when the team has come to that.
Result<void> OffloadOptimizer::take_back(std::uint32_t i) {
  const auto found = std::find(guesses_.begin(), guesses_.end(), i);
  if (found == guesses_.end()) return {};
  guesses_.erase(found);
  for (std::uint32_t tile = 0; tile < parts_.layout.chunks[i].n_tiles(); ++tile)
    if (parts_.chunks.chunk(undo_[i][tile]).resident(Tier::host))
      if (auto taken = take_back(i, tile); !taken.ok()) return poisoned_ = true, taken;
  drop_undo(i);
  return {};
}

Result<void> OffloadOptimizer::take_back(std::uint32_t i, std::uint32_t tile) {
  const std::array<Need, 2> needs = {Need{state_[i][tile], Tier::host, Access::update},
                                     Need{payload_[i], Tier::host, Access::update}};
  Beside others{parts_.team};
  CASTOR_TRY(parts_.mover.begin({MomentKind::update, i}, needs, &others));
  const TileUndo undo = undo_of(i, tile);
  HostTeam::Job job;
  job.urgency = i;
  job.after = std::move(others.after);
  job.after.push_back(parts_.chunks.chunk(undo_[i][tile]).at(Tier::host).arrived);
  job.n_parts = undo.n_parts();
  job.run = [undo](std::uint32_t part) { return undo.put_back(part), Result<void>(); };
  updates_.push_back(parts_.team.add(std::move(job)));
  parts_.chunks.read_until(undo_[i][tile], Tier::host, updates_.back());
  parts_.mover.end(needs, updates_.back());
  for (const Part& part : parts_of(i, tile))
    if (part.in_tensor == 0 && gradients_->has(part.tensor)) --n_updates_[part.tensor];
  return {};
}

}  // namespace castor
